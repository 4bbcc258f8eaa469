import { describe, expect, it } from '@jest/globals';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { formatName, formatValue, kindOf } from '../../../lib/common/format-value.js';

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('formatValue()', () => {
  it.each<[value: unknown, text: string]>([
    ['goods', '"goods"'],
    ['goods:\ud800\n', String.raw`"goods:\ud800\n"`],
    ['x'.repeat(201), 'a string of 201 characters'],
    ['redis://:se/cr@et@host', '"redis://***@host"'],
    ['redis://host?password=secret&db=1', '"redis://host?***"'],
    [-0, '-0'],
    [Number.NaN, 'NaN'],
    [5n, '5n'],
    [10n ** 400n, 'a large bigint'],
    [null, 'null'],
    [Symbol('secret'), 'a symbol'],
    [() => 'secret', 'a function'],
    [['secret'], 'an array'],
    [{ password: 'secret' }, 'a plain object'],
    [new Map(), 'an object of class Map'],
    [Promise.resolve(), 'a Promise'],
    [Object.create(null), 'an object without a class'],
    [{ constructor: { name: 'secret' } }, 'an object without a class'],
    [revoked(), 'an object that cannot be read'],
  ])('of %# is short and has no password', (value, text) => {
    expect(formatValue(value)).toBe(text);
  });
});

it('kindOf() never returns a text, which may be personal data', () => {
  expect([kindOf('secret'), kindOf('s'), kindOf('')]).toEqual([
    'a string of 6 characters',
    'a string of 1 character',
    'an empty string',
  ]);
});

it('formatName() quotes what is not a name', () => {
  expect([formatName('ttlMs'), formatName('redis://:secret@host'), formatName('x'.repeat(61))]).toEqual([
    'ttlMs',
    '"redis://***@host"',
    `"${'x'.repeat(61)}"`,
  ]);
});

describe('a promise in place of a value', () => {
  const failing = (): never => Promise.reject(new Error('asynchronous by mistake')) as never;

  it('is refused, and its rejection does not end the process', async () => {
    const rejections: unknown[] = [];
    const onRejection = (reason: unknown): void => void rejections.push(reason);
    process.on('unhandledRejection', onRejection);
    await expect(createTestLocks({ key: failing }).acquire('goods')).rejects.toThrow('got a Promise');
    await expect(createTestLocks().acquire(failing())).rejects.toThrow('this is a Promise');
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', onRejection);
    expect(rejections).toEqual([]);
  });
});
