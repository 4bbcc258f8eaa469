import { aFunction, checkValue } from './common/check-options.js';
import { LockConfigError, LockTimeoutError, LockUnavailableError } from './common/errors.js';
import { dropPromise, formatName } from './common/format-value.js';
import { modeOf } from './contract/lock-mode.js';
import type { Lock } from './engine/lock.js';
import type { AcquireOptions } from './engine/options.js';
import { type Hold, runOnce, runUnder, WorkDone } from './engine/hold.js';
import { familyOfTemplate } from './events/call.js';
import { bindTemplate, namesSeveral, parametersOf, type ResourceOption, resourceOfCall } from './keys/bind-template.js';
import { checkAt, OPTIONS } from './options/option-table.js';
import { checkHoldTimes, checkTogether, type ResolvedLockOptions } from './options/resolve-options.js';
import type { WrapOptions } from './options/wrap.options.js';

/** A function of any kind. */
export type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** What the calls of a function or a method lock, besides the resource, and what may take the place of their result. */
export interface WorkOptions {
  /** The options of the lock that were given. `mode` includes the permits and is always there. */
  readonly options: Partial<ResolvedLockOptions> & Pick<ResolvedLockOptions, 'mode'>;
  readonly onBusy: NonNullable<WrapOptions['onBusy']>;
  readonly onUnavailable: NonNullable<WrapOptions['onUnavailable']>;
  readonly label: WrapOptions['label'];
  /** The family of the resources in events and metrics, if it is not their first segment. */
  readonly family: string | undefined;
}

/**
 * Returns the options of a function or a method.
 *
 * @param where the place in the error.
 * @throws LockConfigError if an option is not allowed, by itself or with the others.
 */
export function resolveWork(
  at: 'wrap()' | '@Locked',
  where: string,
  given: WrapOptions,
  resource: ResourceOption,
): WorkOptions & { readonly name: string | undefined } {
  const known = checkTogether<WrapOptions & { name?: string }>(checkAt(at, given, where), where);
  if (known.onceMs !== undefined && namesSeveral(resource))
    throw new LockConfigError(`${where}: onceMs is set for several resources; expected one.`);
  checkHoldTimes(known, where);
  const { name, onBusy = 'throw', onUnavailable = 'throw', label, mode, permits, ...rest } = known;
  const family = typeof resource === 'string' ? familyOfTemplate(resource) : undefined;
  return { name, options: { ...rest, mode: modeOf({ mode, permits }) }, onBusy, onUnavailable, label, family };
}

/** Acquires what one call locks. */
type Acquire = (
  resources: string | readonly string[],
  options: ResolvedLockOptions & Pick<AcquireOptions, 'method' | 'family'>,
) => Promise<Hold>;

const USER = { name: 'wrap()' };

/**
 * Returns a function that runs `fn` under a lock. It has the name and the number of parameters of `fn`.
 *
 * @param defaults the options of locks that are not given.
 * @throws LockKeyError if a template is invalid, or names a parameter that cannot be bound.
 * @throws LockConfigError if an option is not allowed, or `fn` is not a function or is a generator.
 */
export function wrapFunction(
  acquire: Acquire,
  defaults: ResolvedLockOptions,
  resource: ResourceOption,
  given: WrapOptions,
  fn: AnyFunction,
): AnyFunction {
  checkValue('wrap()', 'the function', fn, aFunction);
  const name = fn.name === '' ? undefined : formatName(fn.name);
  const where = name === undefined ? 'wrap()' : `wrap() of ${name}`;
  if (/Generator/.test(fn.constructor.name)) throw new LockConfigError(`${where} cannot hold a lock for a generator.`);
  const work = resolveWork('wrap()', where, given, resource);
  const options = { ...defaults, ...work.options };
  checkHoldTimes(options, where);
  const source = parametersOf(fn);
  const bind = (template: string) => bindTemplate(template, where, source, USER);
  const resourceOf = resourceOfCall(resource, where, USER, bind);

  const wrapped = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
    let lock: Hold;
    try {
      const call = { method: name, family: work.family, label: labelOf(where, work.label, this, args) };
      lock = await acquire(resourceOf(this, args), { ...options, ...call });
    } catch (error) {
      return resultInstead(error, work, this, args);
    }
    const run = (): unknown => Reflect.apply(fn, this, args);
    const { onceMs } = options;
    return runUnder(lock, options.onLost, onceMs === undefined ? run : () => runOnce(lock as Lock, onceMs, run));
  };
  // Frameworks read them: a handler of Express with four parameters gets errors.
  const { name: ownName, length } = fn;
  return Object.defineProperties(wrapped, {
    name: { value: ownName, configurable: true },
    length: { value: length, configurable: true },
  });
}

/**
 * Returns what a call returns in place of the work's result.
 *
 * @param error why the call got no lock.
 * @param self what the call's `this` is.
 * @throws the error, if nothing takes its place.
 */
export function resultInstead(
  error: unknown,
  { onBusy, onUnavailable }: Pick<WorkOptions, 'onBusy' | 'onUnavailable'>,
  self: unknown,
  args: readonly unknown[],
): unknown {
  if (error instanceof WorkDone) return undefined;
  const isBusy = error instanceof LockTimeoutError;
  const instead = isBusy ? onBusy : error instanceof LockUnavailableError ? onUnavailable : 'throw';
  if (instead === 'throw') throw error;
  return instead === 'skip' ? undefined : (Reflect.apply(instead, self, [error, ...args]) as unknown);
}

/**
 * Returns the label of one call.
 *
 * @param where the function for errors, `GoodsController.buy`.
 * @throws LockConfigError if the label function returns something other than a string or undefined.
 */
export function labelOf(
  where: string,
  label: WorkOptions['label'],
  self: unknown,
  args: readonly unknown[],
): string | undefined {
  if (typeof label !== 'function') return label;
  const given: unknown = Reflect.apply(label, self, args);
  dropPromise(given);
  if (given !== undefined) checkValue(where, 'the result of the label function', given, OPTIONS.label);
  return given as string | undefined;
}
