import { ABORT_SIGNAL_SHAPE, isAbortSignal } from '../core/abort-signals.js';
import {
  checkOptions,
  checkValue,
  type GivenOptions,
  hasMethods,
  isNodeRedis,
  isOptionsObject,
  milliseconds,
  millisecondsFrom,
  oneOf,
  type OptionRule,
  type OptionRules,
  wholeNumber,
  wholeNumberFrom,
  withoutUndefined,
} from '../core/check-options.js';
import { LockConfigError, type LockErrorCode } from '../core/errors.js';
import { isNamespace, NAMESPACE_SHAPE, prefixIn } from '../core/keys/resource-key.js';
import { type LockMode, modeOf } from '../core/store/lock-mode.js';
import { isLockStore } from '../core/store/lock-store-shape.js';
import { defaultIdentity, identityRule } from './identity.js';
import type { LockOptions } from './lock.options.js';
import type {
  CheckLevel,
  CheckOptions,
  FamilyOptions,
  HttpOptions,
  RedisLockModuleOptions,
} from './redis-lock.options.js';
import type { ReplicaOptions } from '../stores/store-context.js';

type LockDefaults = Required<Omit<LockOptions, 'signal' | 'mode' | 'permits' | 'label' | 'background'>>;

/** The defaults of locks that are options of the module, too. */
type SharedDefaults = Omit<LockDefaults, 'lockOrder'>;

/** Options without a default. Those of `http` get theirs when all module instances are known. */
type Undefaulted = 'key' | 'store' | 'namespace' | 'families' | 'http' | 'inTransaction';

/** The options of a module, with all defaults. `prefix` begins with the namespace, if there is one. */
export interface ResolvedOptions
  extends
    SharedDefaults,
    Required<Omit<RedisLockModuleOptions, keyof LockOptions | Undefaulted | 'replicas' | 'identity' | 'checks'>>,
    Pick<RedisLockModuleOptions, Undefaulted> {
  readonly identity: string;
  readonly checks: Required<CheckOptions>;
  readonly replicas?: Required<ReplicaOptions> | undefined;
}

/** The options of a lock, with the module's as defaults. */
export interface ResolvedLockOptions extends LockDefaults {
  /** How long to wait for the end of an outage, in milliseconds. An option of the module. */
  readonly unavailableAfterMs: number;
  readonly mode: LockMode;
  readonly signal: AbortSignal | undefined;
  readonly label?: string | undefined;
  readonly background?: boolean | undefined;
}

const LOCK_DEFAULTS: SharedDefaults = {
  ttlMs: 30_000,
  waitMs: 5_000,
  maxWaiting: 1_000,
  renew: true,
  maxHoldMs: Infinity,
  minHoldMs: 0,
  warnHeldMs: 30_000,
  reentrant: true,
  onLost: 'throw',
  awaitRelease: true,
};

const MODULE_DEFAULTS: Omit<ResolvedOptions, Undefaulted | 'replicas' | 'identity'> = {
  ...LOCK_DEFAULTS,
  redis: 'redis://127.0.0.1:6379',
  prefix: 'lock_',
  hashTag: 'family',
  fairness: 'throughput',
  lockDelayMs: 0,
  unavailableAfterMs: 500,
  checks: { server: 'warn', decoratorOrder: 'warn', unlockedOverride: 'warn', lockOrder: 'warn' },
  shutdownGraceMs: 5_000,
};

/** The time limit of one request to the store, in milliseconds. */
export const REQUEST_TIMEOUT_MS = 1_000;

const REPLICA_TIMEOUT_MS = 50;

const MIN_TTL_MS = 50;
// Redis stores expiries as 64-bit milliseconds since 1970. A year is more than any lease needs.
const MAX_TTL_MS = 365 * 24 * 3600 * 1000;

const MAX_PERMITS = 1_000_000;

// A client is known by `evalsha`. Options of ioredis have no such method.
const isHalfAClient = (value: unknown): boolean =>
  isNodeRedis(value) || (hasMethods(value, ['evalsha']) && !hasMethods(value, ['eval', 'pipeline', 'on', 'off']));

// `nodes` of a Cluster is a method.
const areNodes = (value: unknown): boolean => typeof value === 'function' || (Array.isArray(value) && value.length > 0);

/** Allows every text, because a label may come from a client. Events show a part of it. */
export const labelRule: OptionRule = { allowed: 'a string', fits: (value) => typeof value === 'string' };

/** Allows what happens in place of a call that got no lock. */
export const insteadRule: OptionRule = {
  allowed: '"throw", "skip" or a function',
  fits: (value) => value === 'throw' || value === 'skip' || typeof value === 'function',
};

const checkLevel = oneOf('warn', 'error', 'off');

/** The rule of every option of a lock. */
export const LOCK_RULES: OptionRules<LockOptions> = {
  ttlMs: milliseconds(MIN_TTL_MS, MAX_TTL_MS),
  waitMs: millisecondsFrom(0),
  maxWaiting: wholeNumberFrom(1),
  renew: oneOf(true, false),
  maxHoldMs: millisecondsFrom(1),
  minHoldMs: milliseconds(0, MAX_TTL_MS),
  warnHeldMs: {
    allowed: 'false, or a number of milliseconds from 1 up, or Infinity',
    fits: (value) => value === false || millisecondsFrom(1).fits(value),
  },
  reentrant: oneOf(true, false),
  onLost: oneOf('throw', 'ignore'),
  awaitRelease: oneOf(true, false),
  lockOrder: checkLevel,
  signal: { allowed: ABORT_SIGNAL_SHAPE, fits: isAbortSignal },
  mode: oneOf('exclusive', 'shared'),
  permits: wholeNumber(1, MAX_PERMITS),
  label: labelRule,
  background: oneOf(true, false),
};

// These belong to one call or to one resource: a module has no defaults for them.
const {
  signal: _signal,
  mode: _mode,
  permits: _permits,
  label: _label,
  background: _background,
  lockOrder: _lockOrder,
  ...SHARED_RULES
} = LOCK_RULES;

/** The rule of every option of a family. */
export const FAMILY_RULES: OptionRules<FamilyOptions> = {
  ...SHARED_RULES,
  lockOrder: checkLevel,
  onBusy: insteadRule,
  onUnavailable: insteadRule,
};

const STATUS_OF_CODE = wholeNumber(400, 599);

const HTTP_STATUS_RULES: OptionRules<Record<LockErrorCode, number | undefined>> = {
  LOCK_TIMEOUT: STATUS_OF_CODE,
  LOCK_UNAVAILABLE: STATUS_OF_CODE,
  LOCK_REPLICATION: STATUS_OF_CODE,
  LOCK_CLOSED: STATUS_OF_CODE,
  LOCK_STALE: STATUS_OF_CODE,
  LOCK_LOST: STATUS_OF_CODE,
  LOCK_NOT_HELD: STATUS_OF_CODE,
  LOCK_KEY: STATUS_OF_CODE,
  LOCK_REENTRY: STATUS_OF_CODE,
  LOCK_ORDER: STATUS_OF_CODE,
  LOCK_CONFIG: STATUS_OF_CODE,
};

const HTTP_RULES: OptionRules<HttpOptions> = {
  filter: oneOf(true, false),
  status: { allowed: 'like { LOCK_TIMEOUT: 409 }', fits: isOptionsObject },
  retryAfterMs: milliseconds(0, 2 ** 31 - 1),
};

const CHECK_RULES: OptionRules<CheckOptions> = {
  server: checkLevel,
  decoratorOrder: checkLevel,
  unlockedOverride: checkLevel,
  lockOrder: checkLevel,
};

const checksRule: OptionRule = {
  allowed: '"warn", "error", "off" or like { server: \'error\' }',
  fits: (value) => checkLevel.fits(value) || isOptionsObject(value),
};

/** The rule of every option of a module. */
export const MODULE_RULES: OptionRules<RedisLockModuleOptions> = {
  ...SHARED_RULES,
  redis: {
    allowed:
      'a redis:// or rediss:// URL, the path of a socket, options or a client of ioredis, ' +
      'or fromNodeRedis(client); for a cluster { nodes: [...] } or a Cluster',
    fits: (value) =>
      typeof value === 'string'
        ? /^rediss?:\/\/|^unix:\/\/|^\//.test(value)
        : isOptionsObject(value) && !('nodes' in value && !areNodes(value.nodes)) && !isHalfAClient(value),
  },
  prefix: {
    allowed: 'a string without braces, |, white space and control characters; it may be empty',
    fits: (value) => typeof value === 'string' && !/[{}|\s\p{Cc}\p{Cs}]/u.test(value),
  },
  namespace: { allowed: NAMESPACE_SHAPE, fits: (value) => typeof value === 'string' && isNamespace(value) },
  identity: identityRule,
  hashTag: oneOf('family', 'resource'),
  families: { allowed: 'like { goods: { ttlMs: 10000 } }', fits: isOptionsObject },
  key: { allowed: 'a function from a resource to its key', fits: (value) => typeof value === 'function' },
  fairness: oneOf('throughput', 'strict'),
  lockDelayMs: milliseconds(0, MAX_TTL_MS),
  unavailableAfterMs: millisecondsFrom(0),
  checks: checksRule,
  http: { allowed: 'like { filter: true, retryAfterMs: 1000 }', fits: isOptionsObject },
  inTransaction: { allowed: 'a function that returns a boolean', fits: (value) => typeof value === 'function' },
  replicas: { allowed: 'like { min: 1, timeoutMs: 50 }, with whole numbers from 1 up', fits: isReplicaOptions },
  shutdownGraceMs: milliseconds(0, 2 ** 31 - 1),
  store: {
    allowed: 'what token(), timestamp(), redisson(), quorum() or memory() returns, or a LockStore',
    fits: (value) => typeof value === 'function' || isLockStore(value),
  },
};

/**
 * Returns the options of a module with all defaults.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function resolveOptions(given: RedisLockModuleOptions): ResolvedOptions {
  const known = checkOptions('the options of RedisLockModule', given, MODULE_RULES);
  const replicas = known.replicas && { ...known.replicas, timeoutMs: known.replicas.timeoutMs ?? REPLICA_TIMEOUT_MS };
  const { identity = defaultIdentity() } = known;
  checkNamespace(known);
  const prefix = prefixIn(known.namespace, known.prefix ?? MODULE_DEFAULTS.prefix);
  const { checks, http } = known;
  const resolved: ResolvedOptions = {
    ...MODULE_DEFAULTS,
    ...known,
    prefix,
    identity,
    checks: resolveChecks(checks),
    http: http && resolveHttp(http),
    replicas,
  };
  checkHoldTimes(resolved);
  checkReplicas(resolved);
  return resolved;
}

/**
 * Returns the level of each check. One level is for those at start.
 *
 * @param lockOrder the default of the check of the lock order.
 * @throws LockConfigError that names the check, what was given and what is allowed.
 */
export function resolveChecks(
  given: CheckLevel | CheckOptions | undefined,
  lockOrder: CheckLevel = 'warn',
): Required<CheckOptions> {
  const checks = { ...MODULE_DEFAULTS.checks, lockOrder };
  if (given === undefined) return checks;
  checkValue('the options of RedisLockModule', 'checks', given, checksRule);
  if (typeof given === 'string') return { ...checks, server: given, decoratorOrder: given, unlockedOverride: given };
  return { ...checks, ...checkOptions('checks of RedisLockModule', given, CHECK_RULES) };
}

function resolveHttp(given: HttpOptions): HttpOptions {
  const known = checkOptions('http of RedisLockModule', given, HTTP_RULES);
  const status = known.status && checkOptions('http.status of RedisLockModule', known.status, HTTP_STATUS_RULES);
  return { ...known, status };
}

/**
 * Returns the options of a lock, with the module's as defaults.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function resolveLockOptions<T extends ResolvedLockOptions>(given: LockOptions | undefined, defaults: T): T {
  if (given === undefined) return defaults;
  const known = checkLockOptions(given, 'the options of a lock');
  const { mode, permits, ...rest } = known;
  const resolved = { ...defaults, ...rest, mode: modeOf({ mode, permits }) };
  checkHoldTimes(resolved);
  return resolved;
}

/** Returns the options of a module that are the defaults of its locks. */
export function lockDefaultsOf(options: ResolvedOptions): ResolvedLockOptions {
  const { ttlMs, waitMs, unavailableAfterMs, maxWaiting, renew, maxHoldMs, minHoldMs, warnHeldMs } = options;
  const { reentrant, onLost, awaitRelease, checks } = options;
  const waits = { ttlMs, waitMs, unavailableAfterMs, maxWaiting, renew, maxHoldMs, minHoldMs, warnHeldMs };
  return {
    ...waits,
    reentrant,
    onLost,
    awaitRelease,
    lockOrder: checks.lockOrder,
    signal: undefined,
    mode: 'exclusive',
  };
}

/**
 * Checks the options of a lock, and returns those that are not undefined.
 *
 * @param place where the options were given, for the error.
 * @param others options that the caller checks, for the error.
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function checkLockOptions(
  given: LockOptions,
  place: string,
  others?: readonly string[],
): GivenOptions<LockOptions> {
  const known = checkOptions(place, given, LOCK_RULES, others);
  if (known.mode === undefined || known.permits === undefined) return known;
  throw new LockConfigError(`${place}: there are mode and permits; allowed is one of both.`);
}

// The keys of a `key` function have no prefix, so the namespace would keep nothing apart.
function checkNamespace({ namespace, key }: Pick<RedisLockModuleOptions, 'namespace' | 'key'>): void {
  if (namespace === undefined || key === undefined) return;
  throw new LockConfigError(
    'namespace: there is a `key` function, too, which makes whole keys; allowed is one of both. ' +
      'Put the namespace into the keys of the function.',
  );
}

/** @throws LockConfigError if a lock would have to be held for longer than it may be. */
export function checkHoldTimes(
  { minHoldMs, maxHoldMs }: Pick<LockDefaults, 'minHoldMs' | 'maxHoldMs'>,
  place?: string,
): void {
  if (minHoldMs <= maxHoldMs) return;
  const where = place === undefined ? '' : `${place}: `;
  throw new LockConfigError(`${where}minHoldMs is ${minHoldMs}; allowed is up to maxHoldMs, which is ${maxHoldMs}.`);
}

// A grant can wait for the replicas of the grants before it and then for its own.
function checkReplicas({ replicas }: ResolvedOptions): void {
  const most = REQUEST_TIMEOUT_MS / 2;
  if (replicas === undefined || replicas.timeoutMs <= most) return;
  throw new LockConfigError(`replicas.timeoutMs is ${replicas.timeoutMs}; allowed is up to ${most}.`);
}

function isReplicaOptions(value: unknown): boolean {
  if (!isOptionsObject(value)) return false;
  const entries = Object.entries(withoutUndefined(value));
  const fits = ([name, number]: [string, unknown]): boolean =>
    ['min', 'timeoutMs'].includes(name) && Number.isInteger(number) && Number(number) >= 1;
  return entries.some(([name]) => name === 'min') && entries.every(fits);
}
