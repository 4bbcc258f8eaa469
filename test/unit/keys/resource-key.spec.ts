import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockKeyError } from '../../../lib/common/errors.js';
import { createKeyFactory, helperKey, keyOfHelper, type KeyOptions } from '../../../lib/keys/resource-key.js';

const family: KeyOptions = { prefix: 'lock_', hashTag: 'family' };
const whole: KeyOptions = { prefix: 'lock_', hashTag: 'resource' };

/** Redis' own rule: between the first `{` and the first `}` after it, unless that is empty. Otherwise the whole key. */
function slotText(key: string): string {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  return open === -1 || close === -1 || close === open + 1 ? key : key.slice(open + 1, close);
}

function errorOf(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('did not throw');
}

describe('createKeyFactory', () => {
  it.each<[string, KeyOptions, string]>([
    ['goods:300', family, '{lock_goods}:300'],
    ['goods:300:size:4', family, '{lock_goods}:300:size:4'],
    ['report', family, '{lock_report}'],
    ['goods:{300}', family, 'lock_goods:{300}'],
    ['{goods}:300', family, 'lock_{goods}:300'],
    ['goods:', family, '{lock_goods}:'],
    [':300', family, '{lock_}:300'],
    ['goods:300', whole, '{lock_goods:300}'],
    ['report', whole, '{lock_report}'],
    ['goods:{300}', whole, 'lock_goods:{300}'],
    ['goods:300', { prefix: '', hashTag: 'family' }, '{goods}:300'],
    ['report', { prefix: '', hashTag: 'family' }, '{report}'],
    [':300', { prefix: '', hashTag: 'resource' }, '{:300}'],
    ['goods:300', { prefix: 'app:lock:', hashTag: 'family' }, '{app:lock:goods}:300'],
    ['two words:käse', family, '{lock_two words}:käse'],
  ])('makes the key of %s with %j', (resource, options, key) => {
    expect(createKeyFactory(options)(resource)).toBe(key);
  });

  it('uses the key of a key function as it is returned', () => {
    const toKey = createKeyFactory({ ...family, key: (resource) => `${resource}_lock` });
    expect(toKey('account:1')).toBe('account:1_lock');
    expect(toKey('account:{1}')).toBe('account:{1}_lock');
  });

  it.each([
    ['', /not empty/],
    ['a|b', /'\|'.*resource`/],
    ['a\nb', /"\\n".*control character/],
    ['a\u0000', /control character/],
    ['a\ud800', /half/],
    ['a{}', /an empty pair of braces/],
    ['a{b', /never closed/],
    ['a}b', /without a '\{' before/],
    ['}a{', /without a '\{' before/],
    ['{a}{b}', /more than one pair/],
    ['{a{b}}', /more than one pair/],
    ['a:' + 'x'.repeat(1023), /1025 bytes long.*hash/],
    ['a:' + 'ä'.repeat(512), /1026 bytes long.*hash/],
    ['😀'.repeat(257), /1028 bytes long.*hash/],
  ])('refuses resource %j', (resource, message) => {
    const error = errorOf(() => createKeyFactory(family)(resource));
    expect(error).toBeInstanceOf(LockKeyError);
    expect(error.message).toMatch(message);
  });

  it.each([[undefined], [null], [300], [['goods:1']], [{}], [Promise.resolve('a')]])(
    'refuses %p as a resource',
    (value) => {
      expect(() => createKeyFactory(family)(value as unknown as string)).toThrow(LockKeyError);
    },
  );

  it('accepts resources of up to 1,024 bytes', () => {
    for (const resource of ['x'.repeat(1024), 'ä'.repeat(512), '😀'.repeat(256)]) {
      expect(createKeyFactory(whole)(resource)).toBe(`{lock_${resource}}`);
    }
  });

  it('refuses an empty family without a prefix', () => {
    const error = errorOf(() => createKeyFactory({ prefix: '', hashTag: 'family' })(':300'));
    expect(error).toMatchObject({ code: 'LOCK_KEY', resource: ':300' });
  });

  it.each(['{app}', 'a|', 'a\n', '}'])('refuses the prefix %j at once', (prefix) => {
    expect(() => createKeyFactory({ prefix, hashTag: 'family' })).toThrow(LockConfigError);
  });

  it.each([
    ['', /an empty string/],
    [undefined, /undefined/],
    [7, /7/],
    [Promise.resolve('x'), /a Promise/],
    ['a|b', /'\|'/],
    ['a{}', /empty pair/],
    ['{a}{b}', /more than one pair/],
    ['a}', /without/],
  ])('refuses %p from a key function, naming the resource', (returned, message) => {
    const error = errorOf(() => createKeyFactory({ ...family, key: () => returned as string })('goods:300'));
    expect(error).toMatchObject({ code: 'LOCK_KEY', resource: 'goods:300' });
    expect(error.message).toMatch(message);
    expect(error.message).toContain("'goods:300'");
  });

  it('refuses a bad resource before it calls a key function', () => {
    const seen: string[] = [];
    const key = (resource: string) => (seen.push(resource), 'k');
    expect(() => createKeyFactory({ ...family, key })('a|b')).toThrow(LockKeyError);
    expect(seen).toEqual([]);
  });

  it('keeps the error of a key function as the cause', () => {
    const cause = new Error('no such tenant');
    const key = () => {
      throw cause;
    };
    expect(errorOf(() => createKeyFactory({ ...family, key })('goods:1'))).toMatchObject({ code: 'LOCK_KEY', cause });
  });
});

describe('helper keys', () => {
  it.each([
    ['{lock_goods}:300', '{lock_goods}:300|queue'],
    ['{lock_report}', '{lock_report}|queue'],
    ['lock_goods:{300}', 'lock_goods:{300}|queue'],
    ['account:1_lock', '{account:1_lock}||queue'],
  ])('of %s', (key, queue) => {
    expect(helperKey(key, 'queue')).toBe(queue);
    expect(slotText(queue)).toBe(slotText(key));
    expect(keyOfHelper(queue, 'queue')).toBe(key);
  });

  it('never equal the key of another resource', () => {
    const keys = ['goods', 'goods:1', 'goods:2', 'goods:{1}', '{goods}:1'].map(createKeyFactory(family));
    const helpers = keys.map((key) => helperKey(key, 'queue'));
    expect(new Set(keys).size).toBe(keys.length);
    expect(helpers.filter((helper) => keys.includes(helper))).toEqual([]);
  });
});
