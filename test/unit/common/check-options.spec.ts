import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import {
  checkOptions,
  copyOptions,
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

describe('copyOptions', () => {
  it('refuses an option that a copy by assignment would lose', () => {
    const given = JSON.parse('{ "__proto__": { "ttlMs": 5000 } }') as object;
    const refusal = 'RedisLockModule.forRoot(): there is no option __proto__.';
    expect(() => copyOptions('RedisLockModule.forRoot()', given)).toThrow(new LockConfigError(refusal));
  });
});

describe('checkOptions', () => {
  it.each<[given: unknown, message: string]>([
    [{ unit: 'm' }, 'client(): unit is "m"; expected "s" or "ms".'],
    [{ unit: null }, 'client(): unit is null; expected "s" or "ms".'],
    [{ unit: new Map() }, 'client(): unit is an object of class Map; expected "s" or "ms".'],
    [{ url: 'http://joe:secret@host' }, 'client(): url is "http://***@host"; expected a redis:// URL.'],
    [{ lease: 1 }, 'client(): there is no option lease; there are unit, url.'],
    [{ constructor: 1 }, 'client(): there is no option constructor; there are unit, url.'],
    [null, 'client(): the options are null; expected a plain object.'],
    ['unit', 'client(): the options are "unit"; expected a plain object.'],
  ])('refuses %j and names what is allowed', (given, message) => {
    expect(check(given)).toThrow(new LockConfigError(message));
    expect(check(given)).toThrow(LockConfigError);
  });

  it.each<[given: object, known: readonly string[], meant: string]>([
    [{ ttl: 1 }, ['ttlMs', 'waitMs'], 'ttlMs'],
    [{ wait: 1 }, ['ttlMs', 'waitMs'], 'waitMs'],
    [{ timeout: 1 }, ['ttlMs', 'waitMs'], 'waitMs'],
    [{ timeout: 1 }, ['ttlMs', 'timeoutMs'], 'timeoutMs'],
    [{ retries: 1 }, ['ttlMs', 'waitMs'], 'waitMs'],
    [{ url: 1 }, ['redis', 'prefix'], 'redis'],
    [{ connection: 1 }, ['redis', 'prefix'], 'redis'],
    [{ global: true }, ['name', 'isGlobal'], 'isGlobal'],
    [{ onlost: 1 }, ['onLost', 'onBusy'], 'onLost'],
    [{ tltMs: 1 }, ['waitMs', 'ttlMs'], 'ttlMs'],
    [{ prefx: 1 }, ['redis', 'prefix'], 'prefix'],
  ])('asks whether %j was meant to be one of %j', (given, known, meant) => {
    const rule = oneOf('s');
    const unknown = () => checkOptions('client()', given, Object.fromEntries(known.map((name) => [name, rule])));
    const [name] = Object.keys(given);
    const refusal = `client(): there is no option ${name} (did you mean ${meant}?); there are ${known.join(', ')}.`;
    expect(unknown).toThrow(new LockConfigError(refusal));
  });

  it.each([{ lease: 1 }, { ms: 1 }, { of: 1 }, { [`unit${'t'.repeat(100)}`]: 1 }])(
    'asks nothing if no known name is near: case %#',
    (given) => {
      expect(check(given)).toThrow(/; there are unit, url\.$/);
      expect(check(given)).not.toThrow(/did you mean/);
    },
  );

  it('names the only option in the singular', () => {
    const single = () => checkOptions<{ unit?: string }>('client()', { lease: 1 } as object, { unit: oneOf('s') });
    expect(single).toThrow('there is no option lease; there is unit.');
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
