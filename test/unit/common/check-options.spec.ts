import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import {
  checkOptions,
  milliseconds,
  millisecondsFrom,
  oneOf,
  type OptionRule,
  type OptionRules,
  wholeNumber,
  wholeNumberFrom,
} from '../../../lib/common/check-options.js';

interface Options {
  readonly unit?: 's' | 'ms';
  readonly url?: string;
}

const rules: OptionRules<Options> = {
  unit: oneOf('s', 'ms'),
  url: { allowed: 'a redis:// URL', fits: (value) => typeof value === 'string' && value.startsWith('redis://') },
};

const check = (given: unknown) => () => checkOptions('client()', given as Options, rules);

describe('checkOptions', () => {
  it.each<[given: unknown, message: string]>([
    [{ unit: 'm' }, 'client(): unit is "m"; expected "s" or "ms".'],
    [{ unit: null }, 'client(): unit is null; expected "s" or "ms".'],
    [{ unit: new Map() }, 'client(): unit is an object of class Map; expected "s" or "ms".'],
    [{ url: 'http://joe:secret@host' }, 'client(): url is "http://***@host"; expected a redis:// URL.'],
    [{ lease: 1 }, 'client(): unknown option lease; expected unit, url.'],
    [{ constructor: 1 }, 'client(): unknown option constructor; expected unit, url.'],
    [null, 'client(): the options are null; expected a plain object.'],
    ['unit', 'client(): the options are "unit"; expected a plain object.'],
  ])('refuses %j and names what is allowed', (given, message) => {
    expect(check(given)).toThrow(new LockConfigError(message));
    expect(check(given)).toThrow(LockConfigError);
  });

  it('names the only option in the singular', () => {
    const single = () => checkOptions<{ unit?: string }>('client()', { lease: 1 } as object, { unit: oneOf('s') });
    expect(single).toThrow('unknown option lease; expected unit.');
  });

  it('returns the options that are not undefined', () => {
    expect(check({ unit: 's', url: undefined })()).toEqual({ unit: 's' });
    expect(check({ lease: undefined })()).toEqual({});
  });

  it.each<[rule: OptionRule, allowed: readonly unknown[], refused: readonly unknown[]]>([
    [oneOf(true, false), [true, false], ['true', 1, undefined]],
    [millisecondsFrom(0), [0, 0.5, Infinity], [-1, NaN, '1']],
    [milliseconds(1, 10), [1, 9.5, 10], [0, 11, NaN, '5', Infinity]],
    [wholeNumberFrom(0), [0, 7, Infinity], [-1, 1.5, NaN, '1']],
    [wholeNumber(1, 3), [1, 3], [0, 4, 1.5, NaN, '2', Infinity]],
  ])('applies %o', (rule, allowed, refused) => {
    expect(allowed.filter((value) => !rule.fits(value))).toEqual([]);
    expect(refused.filter((value) => rule.fits(value))).toEqual([]);
  });
});
