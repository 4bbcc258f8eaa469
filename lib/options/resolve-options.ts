import { hostname } from 'node:os';
import { LockConfigError } from '../common/errors.js';
import { LONGEST_IDENTITY } from '../contract/instance-id.js';
import { type LockMode, modeOf } from '../contract/lock-mode.js';
import type { ReplicaOptions } from '../stores/store-context.js';
import type { LockOptions, OnceOptions } from './lock.options.js';
import { checkAt, defaultsOf, type NamesAt, optionsAt, REPLICAS, type WithDefaults } from './option-table.js';
import type { RedisLockModuleOptions } from './redis-lock.options.js';

/** The options of a module, with all defaults. */
export interface ResolvedOptions extends Omit<WithDefaults<RedisLockModuleOptions>, 'identity' | 'replicas'> {
  readonly identity: string;
  readonly replicas?: Required<ReplicaOptions> | undefined;
}

type LockDefaults = Required<Pick<LockOptions, keyof LockOptions & NamesAt<'module'>>>;

/** The options of a lock, with the module's as defaults. */
export interface ResolvedLockOptions extends LockDefaults {
  /** How long to wait for the end of an outage, in milliseconds. An option of the module. */
  readonly unavailableAfterMs: number;
  readonly mode: LockMode;
  readonly signal: AbortSignal | undefined;
  readonly label?: string | undefined;
  readonly onceMs?: number | undefined;
}

// How errors name the place.
const MODULE = 'the options of RedisLockModule';
const CALL = 'the options of a lock';

const MODULE_DEFAULTS = defaultsOf(optionsAt('module'));

/** The options of a module that are the defaults of its locks. */
const OF_LOCKS = [...Object.keys(MODULE_DEFAULTS).filter((name) => name in optionsAt('lock')), 'unavailableAfterMs'];

/**
 * Returns the options of a module with all defaults.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function resolveOptions(given: RedisLockModuleOptions): ResolvedOptions {
  const known = checkAt('module', given, MODULE);
  const resolved: ResolvedOptions = {
    ...MODULE_DEFAULTS,
    identity: defaultIdentity(),
    ...known,
    replicas: known.replicas && { ...defaultsOf(REPLICAS), ...known.replicas },
  };
  checkHoldTimes(resolved, MODULE);
  return resolved;
}

/** Returns the host name and the process id, such as `api-7f9c-31`. */
export function defaultIdentity(): string {
  const pid = `-${process.pid}`;
  const host = hostname().replace(/[^\w.-]/g, '-') || 'host';
  return host.slice(0, LONGEST_IDENTITY - pid.length) + pid;
}

/**
 * Returns the options of a lock, with the module's as defaults.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function resolveLockOptions(
  given: LockOptions | OnceOptions | undefined,
  defaults: ResolvedLockOptions,
): ResolvedLockOptions {
  if (given === undefined) return defaults;
  const { mode, permits, ...rest } = checkTogether(checkAt('lock', given as LockOptions, CALL), CALL);
  const resolved = { ...defaults, ...rest, mode: modeOf({ mode, permits }) };
  checkHoldTimes(resolved, CALL);
  return resolved;
}

/** Returns the options of a module that are the defaults of its locks. */
export function lockDefaultsOf(options: ResolvedOptions): ResolvedLockOptions {
  const own = Object.fromEntries(OF_LOCKS.map((name) => [name, options[name as keyof ResolvedOptions]]));
  const ofCalls = { signal: undefined, mode: 'exclusive' } as const;
  return { ...(own as Omit<ResolvedLockOptions, keyof typeof ofCalls>), ...ofCalls };
}

/** Options that may exclude each other. */
interface Exclusive {
  readonly onceMs?: number | undefined;
  readonly minHoldMs?: number | undefined;
  readonly mode?: 'exclusive' | 'shared' | undefined;
  readonly permits?: number | undefined;
}

/**
 * Returns the given options. With `onceMs`, the module's `minHoldMs` does not apply.
 *
 * @param place where the options were given, for the error.
 * @throws LockConfigError if `mode` is given with `permits`, or `onceMs` with `minHoldMs` or for a lock that is shared.
 */
export function checkTogether<T extends object>(known: T, place: string): T {
  const { onceMs, minHoldMs, mode, permits }: Exclusive = known;
  const fail = (problem: string): never => {
    throw new LockConfigError(`${place}: ${problem}.`);
  };
  if (mode !== undefined && permits !== undefined) fail('mode and permits are both set; use only one of them');
  if (onceMs === undefined) return known;
  if (minHoldMs !== undefined) fail('onceMs and minHoldMs are both set; use only one of them');
  if (permits !== undefined) fail(`onceMs is set with permits: ${permits}; expected an exclusive lock`);
  if (mode === 'shared') fail(`onceMs is set with mode: '${mode}'; expected an exclusive lock`);
  return { ...known, minHoldMs: 0 };
}

/**
 * Checks options that exclude each other. Those that are not given are not checked.
 *
 * @param place where the options were given, for the error.
 * @throws LockConfigError if `minHoldMs` is longer than `maxHoldMs`.
 */
export function checkHoldTimes(options: HoldTimes, place: string): void {
  const problem = describeHoldTimes(options, place);
  if (problem !== undefined) throw new LockConfigError(problem);
}

/** Returns the message of what {@link checkHoldTimes} throws. Undefined if it throws nothing. */
export function describeHoldTimes({ minHoldMs = 0, maxHoldMs = Infinity }: HoldTimes, place: string) {
  if (minHoldMs <= maxHoldMs) return undefined;
  return `${place}: minHoldMs is ${minHoldMs}; expected at most maxHoldMs, which is ${maxHoldMs}.`;
}

type HoldTimes = Partial<Pick<LockDefaults, 'minHoldMs' | 'maxHoldMs'>>;
