import { LockConfigError } from './errors.js';
import { formatName, formatValue } from './format-value.js';

/** What an option may be. */
export interface OptionRule {
  /** Completes "expected …" in the error. */
  readonly allowed: string;
  readonly fits: (value: unknown) => boolean;
  /** The rules of the options in the value, if it is an object. */
  readonly fields?: OptionRules<object> | undefined;
}

/** One rule for each option. An option without a rule is unknown. */
export type OptionRules<T> = { readonly [K in keyof T]-?: OptionRule };

/** Options without the undefined ones, which count as not given. */
export type GivenOptions<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Allows the listed values. */
export const oneOf = (...values: readonly unknown[]): OptionRule => ({
  allowed: values.map((value) => JSON.stringify(value)).join(' or '),
  fits: (value) => values.includes(value),
});

/** Allows a number of milliseconds from `least` up, and Infinity. */
export const millisecondsFrom = (least: number): OptionRule => ({
  allowed: `a number of milliseconds from ${least} up, or Infinity`,
  fits: (value) => typeof value === 'number' && value >= least,
});

/** Allows a number of milliseconds from `least` to `most`, both included. */
export const milliseconds = (least: number, most: number): OptionRule => ({
  allowed: `a number of milliseconds from ${least} to ${most}`,
  fits: (value) => typeof value === 'number' && value >= least && value <= most,
});

/** Allows functions. */
export const aFunction: OptionRule = { allowed: 'a function', fits: (value) => typeof value === 'function' };

/** Allows a whole number from `least` up, and Infinity. */
export const wholeNumberFrom = (least: number): OptionRule => ({
  allowed: `a whole number from ${least} up, or Infinity`,
  fits: (value) => value === Infinity || (Number.isInteger(value) && (value as number) >= least),
});

/** Allows a whole number from `least` to `most`, both included. */
export const wholeNumber = (least: number, most: number): OptionRule => ({
  allowed: `a whole number from ${least} to ${most}`,
  fits: (value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= most,
});

/** Returns whether a value is an object with these methods. Throws what its getters throw. */
export function hasMethods(value: unknown, names: readonly string[]): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}

/** Returns true for a bare node-redis client. Stores take what `fromNodeRedis` returns for it. */
export function isNodeRedis(value: unknown): boolean {
  return hasMethods(value, ['sendCommand']) && !hasMethods(value, ['evalsha']);
}

/**
 * Returns the given options without those that are undefined. Options that are objects with rules of their own also
 * lose their undefined fields.
 *
 * @param place names the options in the error: a function, a decorator's method, or "the options of a lock".
 * @param path stands before the names in the error, such as `http.` for the options in `http`.
 * @throws LockConfigError that names the place, the option, what was given and what is allowed. For an unknown option,
 * the error lists the known ones.
 */
export function checkOptions<T extends object>(
  place: string,
  given: T,
  rules: OptionRules<T>,
  path: string = '',
): GivenOptions<T> {
  // Every acquire with options runs this, so the rules are not copied.
  const known: Record<string, unknown> = {};
  checkIsObject(place, given);
  for (const option of Object.keys(given) as (keyof T & string)[]) {
    const value: unknown = given[option];
    if (value === undefined) continue;
    checkName(place, option, rules, path);
    const rule = rules[option];
    checkValue(place, path + option, value, rule);
    const { fields } = rule;
    known[option] = fields && isOptionsObject(value) ? checkOptions(place, value, fields, `${path}${option}.`) : value;
  }
  return known as GivenOptions<T>;
}

/**
 * Checks the name of one option.
 *
 * @throws LockConfigError that lists the known options.
 */
export function checkName(place: string, option: string, rules: object, path: string = ''): void {
  if (!Object.hasOwn(rules, option)) throw unknownOption(place, option, Object.keys(rules), path);
}

/**
 * Checks one value.
 *
 * @param what names the value in the error.
 * @throws LockConfigError that says what was given and what is allowed.
 */
export function checkValue(place: string, what: string, value: unknown, { allowed, fits }: OptionRule): void {
  if (!fits(value)) throw new LockConfigError(`${place}: ${what} is ${formatValue(value)}; expected ${allowed}.`);
}

/** Returns whether a value can be options: a plain object, not an array, a Map, a Date or the like. */
export function isOptionsObject(value: unknown): value is object {
  // Also true for instances of a user's class and for objects from another realm.
  return typeof value === 'object' && value !== null && Object.prototype.toString.call(value) === '[object Object]';
}

/**
 * Returns a plain copy of options whose names and values are checked later.
 *
 * @throws LockConfigError if the options are not an object.
 */
export function copyOptions<T extends object>(place: string, given: T): T {
  checkIsObject(place, given);
  return { ...given };
}

/** @throws LockConfigError if the options are not an object. */
function checkIsObject(place: string, given: unknown): void {
  if (isOptionsObject(given)) return;
  throw new LockConfigError(`${place}: the options are ${formatValue(given)}; expected a plain object.`);
}

function unknownOption(place: string, option: string, known: readonly string[], path: string): LockConfigError {
  const names = known.map((name) => path + name).join(', ');
  return new LockConfigError(`${place}: unknown option ${path}${formatName(option)}; expected ${names}.`);
}

/** Returns the options that are not undefined. */
export function withoutUndefined<T extends object>(given: T): GivenOptions<T> {
  const known = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as GivenOptions<T>;
}
