import { LockConfigError } from './errors.js';

/** What an option may be. */
export interface OptionRule {
  /** Completes "allowed is …" in the error. */
  readonly allowed: string;
  readonly fits: (value: unknown) => boolean;
}

/** One rule for each option. An option without a rule is unknown. */
export type OptionRules<T> = { readonly [K in keyof T]-?: OptionRule };

/** Options without those that are undefined, which count as not given. */
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

/**
 * Returns the given options without those that are undefined.
 *
 * @param place names the options in the error: a function, a decorator's method, or "the options of a lock".
 * @throws LockConfigError that names the place, the option, what was given and what is allowed. For an unknown option,
 * the known ones.
 */
export function checkOptions<T extends object>(place: string, given: T, rules: OptionRules<T>): GivenOptions<T> {
  if (typeof given !== 'object' || given === null) {
    throw new LockConfigError(`${place}: the options are ${format(given)}; allowed is an object.`);
  }
  // Every acquire with options runs this, so the rules are not copied.
  const known: Record<string, unknown> = {};
  for (const option of Object.keys(given) as (keyof T & string)[]) {
    const value: unknown = given[option];
    if (value === undefined) continue;
    if (!Object.hasOwn(rules, option)) throw unknownOption(place, option, Object.keys(rules));
    const rule = rules[option];
    if (!rule.fits(value)) {
      throw new LockConfigError(`${place}: ${option} is ${format(value)}; allowed is ${rule.allowed}.`);
    }
    known[option] = value;
  }
  return known as GivenOptions<T>;
}

function unknownOption(place: string, option: string, known: readonly string[]): LockConfigError {
  const are = known.length === 1 ? 'is' : 'are';
  return new LockConfigError(`${place}: there is no option ${option}; there ${are} ${known.join(', ')}.`);
}

/** Returns the options that are not undefined. */
export function withoutUndefined<T extends object>(given: T): GivenOptions<T> {
  const known = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as GivenOptions<T>;
}

function format(value: unknown): string {
  // A URL may hold a password.
  if (typeof value === 'string') return JSON.stringify(value.replace(/\/\/[^@/]*@/, '//***@'));
  if (typeof value === 'object' && value !== null) return `an object of class ${value.constructor?.name ?? 'Object'}`;
  return String(value);
}
