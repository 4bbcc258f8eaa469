import { ABORT_SIGNAL_SHAPE, isAbortSignal } from '../common/abort-signals.js';
import {
  aFunction,
  checkOptions,
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
} from '../common/check-options.js';
import { LOCK_ERROR_CODES } from '../common/errors.js';
import { isIdentity, LONGEST_IDENTITY } from '../contract/instance-id.js';
import { DEFAULT_INSTANCE, instanceName } from './redis-lock.options.js';

/** Where options are given. `lock`: a call to a `LockService`. `extras`: what Nest needs before the module starts. */
export type Place =
  | 'module'
  | 'extras'
  | 'lock'
  | 'createLocks()'
  | 'wrap()'
  | '@Locked'
  | '@WhileLeader'
  | 'extend()'
  | 'detach()'
  | 'resume()'
  | 'lead()'
  | 'list()'
  | 'forceRelease()'
  | 'assertHeld()';

/** A row of the table. */
interface Option<P extends Place = Place, D = unknown> extends OptionRule {
  readonly at: readonly P[];
  /** Undefined if the option has no default, or if the default is computed when the options are resolved. */
  readonly default: D;
}

function option<const P extends Place, const D = undefined>(
  at: readonly P[],
  { allowed, fits, fields }: OptionRule,
  byDefault?: D,
): Option<P, D> {
  return { allowed, fits, fields, at, default: byDefault as D };
}

/** An option inside an option that is an object. */
const field = <const D = undefined>(rule: OptionRule, byDefault?: D): Option<never, D> => option([], rule, byDefault);

const allow = (allowed: string, fits: OptionRule['fits'], fields?: OptionRules<object>): OptionRule => {
  return { allowed, fits, fields };
};

/** Options of every lock. The module has their defaults. */
const EACH = ['module', 'createLocks()', 'lock', 'wrap()', '@Locked'] as const;
/** Options that belong to one call or one resource, so a module has no defaults for them. */
const ONE = ['lock', 'wrap()', '@Locked'] as const;
/** Options of functions and methods that run under a lock. */
const WORK = ['wrap()', '@Locked'] as const;
/** Options of each module instance, with and without Nest. */
const MODULE = ['module', 'createLocks()'] as const;

// Redis stores expiries as 64-bit milliseconds since 1970. A year is more than any lease needs.
const MAX_TTL_MS = 365 * 24 * 3600 * 1000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The time limit of one request to the store, in milliseconds. */
export const REQUEST_TIMEOUT_MS = 1_000;

const isFunction = aFunction.fits;
const isString = (value: unknown): value is string => typeof value === 'string';
const boolean = oneOf(true, false);
const fromOneUp = allow('a whole number from 1 up', (value) => Number.isSafeInteger(value) && Number(value) > 0);
const statusCode = wholeNumber(400, 599);
const statusCodes = Object.fromEntries(LOCK_ERROR_CODES.map((code) => [code, statusCode]));
/** Allows what happens in place of a call that got no lock. */
const instead = allow(
  '"throw", "skip" or a function',
  (value) => value === 'throw' || value === 'skip' || isFunction(value),
);

// `nodes` of a Cluster is a method.
const areNodes = (value: unknown): boolean => isFunction(value) || (Array.isArray(value) && value.length > 0);
// A client is recognized by `evalsha`. ioredis options have no such method.
const isHalfAClient = (value: unknown): boolean =>
  isNodeRedis(value) || (hasMethods(value, ['evalsha']) && !hasMethods(value, ['eval', 'on', 'off']));
const isRedis = (value: unknown): boolean =>
  isString(value)
    ? /^rediss?:\/\/|^unix:\/\/|^\//.test(value)
    : isOptionsObject(value) && !('nodes' in value && !areNodes(value.nodes)) && !isHalfAClient(value);

/** The options in `http`. */
export const HTTP = {
  status: field(allow('like { LOCK_TIMEOUT: 409 }', isOptionsObject, statusCodes)),
  retryAfterMs: field(milliseconds(0, MAX_TIMER_MS), 1_000),
};

/** The options in `replicas`. */
export const REPLICAS = {
  min: field(fromOneUp),
  // A grant can wait for the replicas of the grants before it and then for its own.
  timeoutMs: field(wholeNumber(1, REQUEST_TIMEOUT_MS / 2), 50),
};

const isReplicas = (value: unknown): boolean =>
  isOptionsObject(value) && (value as { readonly min?: unknown }).min !== undefined;

const REDIS =
  'a redis:// or rediss:// URL, the path of a socket, ioredis options or an ioredis client, ' +
  'or fromNodeRedis(client); for a cluster { nodes: [...] } or a Cluster';
const PREFIX = 'a string without braces, |, white space and control characters; it may be empty';
const STORE = 'what token(), timestamp(), redisson(), quorum() or memory() returns';
const WARN_HELD = 'false, or a number of milliseconds from 1 up, or Infinity';
const IDENTITY = `a string of up to ${LONGEST_IDENTITY} letters, digits and the characters . _ : @ / -`;
const LOGGER = 'console, a Logger, or another object with the methods log, warn and error';
const isLogger = (value: unknown): boolean => hasMethods(value, ['log', 'warn', 'error']);
const PATTERN = 'a pattern over resources such as goods:*, of 1 to 1024 characters';

/**
 * Every option: where it may be given, what is allowed, and its default. The checks, the defaults and the error
 * messages come from it. Tests compare the interfaces and the page on configuration with it.
 */
export const OPTIONS = {
  ttlMs: option(
    [...EACH, '@WhileLeader', 'lead()', 'extend()', 'detach()', 'resume()'],
    milliseconds(50, MAX_TTL_MS),
    30_000,
  ),
  waitMs: option(EACH, millisecondsFrom(0), 5_000),
  maxWaiting: option(EACH, wholeNumberFrom(1), 1_000),
  maxHoldMs: option(EACH, millisecondsFrom(1), Infinity),
  minHoldMs: option(EACH, milliseconds(0, MAX_TTL_MS), 0),
  warnHeldMs: option(
    [...EACH, 'resume()'],
    allow(WARN_HELD, (value) => value === false || millisecondsFrom(1).fits(value)),
    30_000,
  ),
  onLost: option(EACH, oneOf('throw', 'ignore'), 'throw'),
  awaitRelease: option(EACH, boolean, true),
  signal: option([...ONE, 'lead()'], allow(ABORT_SIGNAL_SHAPE, isAbortSignal)),
  mode: option([...ONE, 'assertHeld()'], oneOf('exclusive', 'shared'), 'exclusive'),
  permits: option(ONE, wholeNumber(1, 1_000_000)),
  onceMs: option(ONE, milliseconds(1, MAX_TTL_MS)),
  // Any string, because it may come from a client. Events show a part of it.
  label: option([...ONE, 'resume()'], allow('a string', isString)),

  redis: option(MODULE, allow(REDIS, isRedis), 'redis://127.0.0.1:6379'),
  store: option(MODULE, allow(STORE, isFunction)),
  prefix: option(
    MODULE,
    allow(PREFIX, (value) => isString(value) && !/[{}|\s\p{Cc}\p{Cs}]/u.test(value)),
    'lock_',
  ),
  hashTag: option(MODULE, oneOf('family', 'resource'), 'family'),
  key: option(MODULE, allow('a function from a resource to its key', isFunction)),
  fairness: option(MODULE, oneOf('throughput', 'strict'), 'throughput'),
  unavailableAfterMs: option(MODULE, millisecondsFrom(0), 500),
  checks: option(MODULE, oneOf('warn', 'error', 'off'), 'warn'),
  http: option(['module'], allow('like { retryAfterMs: 1000 }', isOptionsObject, HTTP)),
  shutdownGraceMs: option(MODULE, milliseconds(0, MAX_TIMER_MS), 5_000),
  replicas: option(MODULE, allow('like { min: 1, timeoutMs: 50 }', isReplicas, REPLICAS)),
  lockDelayMs: option(MODULE, milliseconds(0, MAX_TTL_MS), 0),
  identity: option(
    MODULE,
    allow(IDENTITY, (value) => isString(value) && isIdentity(value)),
  ),
  logger: option(['createLocks()'], allow(LOGGER, isLogger)),
  isGlobal: option(['extras'], boolean, true),

  name: option(['extras', '@Locked', '@WhileLeader'], instanceName, DEFAULT_INSTANCE),
  onBusy: option(WORK, instead, 'throw'),
  onUnavailable: option(WORK, instead, 'throw'),
  onElected: option(['lead()'], aFunction),
  onDeposed: option(['lead()'], aFunction),
  match: option(
    ['list()'],
    allow(PATTERN, (value) => isString(value) && value.length >= 1 && value.length <= 1_024),
  ),
  count: option(['list()'], wholeNumber(1, 100_000), 1_000),
  ifToken: option(['forceRelease()'], { ...fromOneUp, allowed: `a fencing token, ${fromOneUp.allowed}` }),
};

/** The label of a function or a method may depend on the arguments of the call. */
const METHOD_LABEL = option(
  WORK,
  allow('a string or a function', (value) => isString(value) || isFunction(value)),
);

type Table = typeof OPTIONS;

/** The names of the options that may be given at a place. */
export type NamesAt<P extends Place> = {
  [K in keyof Table]: P extends Table[K]['at'][number] ? K : never;
}[keyof Table];

type DefaultsOf<T extends Readonly<Record<string, Option>>> = {
  readonly [K in keyof T as T[K]['default'] extends undefined ? never : K]: T[K]['default'];
};

type Defaulted = keyof DefaultsOf<Table>;

/** Options in which each option that has a default is present. */
export type WithDefaults<T> = Required<Pick<T, keyof T & Defaulted>> & Omit<T, Defaulted>;

/** Returns the options that may be given at a place. */
export function optionsAt<P extends Place>(place: P): Pick<Table, NamesAt<P>> {
  const all: Readonly<Record<string, Option>> = WORK.some((each) => each === place)
    ? { ...OPTIONS, label: METHOD_LABEL }
    : OPTIONS;
  const rows = Object.entries(all).filter(([, { at }]) => at.includes(place));
  return Object.fromEntries(rows) as Pick<Table, NamesAt<P>>;
}

/** Returns the defaults of the options that have one. */
export function defaultsOf<T extends Readonly<Record<string, Option>>>(options: T): DefaultsOf<T> {
  const rows = Object.entries<Option>(options).filter(([, row]) => row.default !== undefined);
  return Object.fromEntries(rows.map(([name, row]) => [name, row.default])) as DefaultsOf<T>;
}

// Made once, because every call with options reads them.
const places = new Set(Object.values<Option>(OPTIONS).flatMap(({ at }) => at));
const RULES = Object.fromEntries(Array.from(places, (place) => [place, optionsAt(place) as OptionRules<object>]));

/**
 * Checks options that are given at a place, and returns those that are not undefined.
 *
 * @param shown names the place in the error.
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function checkAt<T extends object>(place: Place, given: T, shown: string = place): GivenOptions<T> {
  return checkOptions(shown, given, RULES[place] as OptionRules<T>);
}
