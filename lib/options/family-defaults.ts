import type { AcquireOptions } from '../core/acquire/acquire-options.js';
import { familyOf, familyOfTemplate } from '../core/events/call.js';
import { checkValue, copyOptions, isOptionsObject, type OptionRule } from '../core/checks/check-options.js';
import { LockConfigError } from '../core/errors.js';
import { formatName } from '../core/format-value.js';
import { isList, readList } from '../core/keys/read-list.js';
import { checkAt } from './option-table.js';
import type { FamilyOptions, RedisLockModuleOptions } from './redis-lock.options.js';
import { checkHoldTimes, type ResolvedLockOptions } from './resolve-options.js';

/** A family's locks: their options with all defaults, and what happens to a `@Locked` call that gets no lock. */
export interface FamilyDefaults extends Pick<FamilyOptions, 'onBusy' | 'onUnavailable'> {
  readonly lock: ResolvedLockOptions;
}

/** The defaults of the calls for some locks. Made once, because the engine recognizes checked options by identity. */
export interface CallDefaults extends FamilyDefaults {
  /** The options of work that runs under a lock. */
  readonly work: ResolvedLockOptions & Pick<AcquireOptions, 'runsWork'>;
  /** The options of locks that their callers release. */
  readonly handle: ResolvedLockOptions & Pick<AcquireOptions, 'leaks'>;
}

const familyRule: OptionRule = { allowed: 'an object like { ttlMs: 10000 }', fits: isOptionsObject };

/**
 * Returns the defaults of each family, on top of those of the module. Undefined if no family has options.
 *
 * @throws LockConfigError that names the family, the option, what was given and what is allowed.
 */
export function familyDefaultsOf(
  { families }: Pick<RedisLockModuleOptions, 'families'>,
  module: ResolvedLockOptions,
): ReadonlyMap<string, FamilyDefaults> | undefined {
  if (families === undefined) return undefined;
  const byFamily = new Map<string, FamilyDefaults>();
  for (const [family, given] of Object.entries(copyOptions('families of RedisLockModule', families))) {
    if (given === undefined) continue;
    checkFamily(family);
    const place = `families of RedisLockModule: ${formatName(family)}`;
    checkValue('families of RedisLockModule', formatName(family), given, familyRule);
    const { onBusy, onUnavailable, ...own } = checkAt('family', given, place);
    const lock: ResolvedLockOptions = { ...module, ...own };
    checkHoldTimes(lock, place);
    byFamily.set(family, { lock, onBusy, onUnavailable });
  }
  return byFamily.size === 0 ? undefined : byFamily;
}

/** Returns the defaults of calls, made from the options of their locks. */
export function callDefaultsOf(family: FamilyDefaults, leaks: AcquireOptions['leaks']): CallDefaults {
  return { ...family, work: { ...family.lock, runsWork: true }, handle: { ...family.lock, leaks } };
}

/** Returns the family of what a caller locks. Undefined for several families, or for a value that is not a resource. */
export function familyOfAll(resources: unknown, family?: string): string | undefined {
  if (typeof resources === 'string') return familyOf(resources, { family });
  if (!isList(resources)) return undefined;
  const families = new Set(listed(resources).map((one) => (typeof one === 'string' ? familyOf(one, {}) : undefined)));
  return families.size === 1 ? [...families][0] : undefined;
}

/** Returns the items of a list, or none if it cannot be read, which the call itself reports later. */
function listed(list: readonly unknown[]): readonly unknown[] {
  try {
    return readList(list, () => 'The list of resources');
  } catch {
    return [];
  }
}

/** @throws LockConfigError if no lock can have that family. */
function checkFamily(family: string): void {
  const isFamily = familyOfTemplate(family) === family || (family !== '' && familyOf(family, {}) === family);
  if (isFamily) return;
  throw new LockConfigError(
    `families of RedisLockModule: ${formatName(family)} is not a family; expected the first segment of ` +
      `resources, such as goods for goods:300, or a whole template that begins with a placeholder.`,
  );
}
