import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import { createKeySelectorFactory } from '../../../lib/keys/key-selector.js';
import { createKeyFactory, helperKey, type KeyOptions } from '../../../lib/keys/resource-key.js';

const RESOURCES = (
  'goods:300 goods:300:red report goods:{300} {goods}:300 {goods} a{b}c go*ds:[3] go?ds:^\\ lock_goods:300 ' +
  'ä:ö😀 : goods:%7B300%7D'
).split(' ');

const OPTIONS: readonly KeyOptions[] = [
  { prefix: 'lock_', hashTag: 'family' },
  { prefix: 'lock_', hashTag: 'resource' },
  { prefix: '', hashTag: 'resource' },
  { prefix: '', hashTag: 'family' },
  { prefix: 'sh*op[1]:', hashTag: 'family' },
];

/** Returns whether Redis would find the text with a glob of `*` and escaped characters. */
const isFound = (glob: string, text: string): boolean => {
  const source = glob.replace(/\\([^])|\*|[.+?^${}()|[\]]/g, (match, escaped?: string) => {
    return match === '*' ? '.*' : `\\u{${(escaped ?? match).codePointAt(0)?.toString(16)}}`;
  });
  return new RegExp(`^${source}$`, 'su').test(text);
};

const keyIn = (options: KeyOptions, resource: string): string | undefined => {
  try {
    return createKeyFactory(options)(resource);
  } catch {
    return undefined;
  }
};

describe.each(OPTIONS)('keys with the prefix $prefix and a hash tag by $hashTag', (options) => {
  const selectorOf = createKeySelectorFactory(options);
  const keys = RESOURCES.flatMap((resource) => {
    const key = keyIn(options, resource);
    return key === undefined ? [] : [{ resource, key }];
  });

  it.each(keys)('lead back to the resource $resource', ({ resource, key }) => {
    const { resourceOf, pattern } = selectorOf(undefined);
    const found = resourceOf(key) as string;
    // Without a prefix, two resources may make one key.
    expect(keyIn(options, found)).toBe(key);
    expect(options.prefix === '' ? resource : found).toBe(resource);
    for (const name of [key, helperKey(key, 'queue')]) expect(isFound(pattern, name)).toBe(true);
  });

  it.each(keys)('are selected by a pattern for $resource', ({ key }) => {
    const found = selectorOf(undefined).resourceOf(key) as string;
    const rest = Array.from(found).slice(1).join('');
    for (const match of [found, `${found}*`, '*', `*${rest}`]) {
      const { resourceOf, pattern } = selectorOf(match);
      expect(resourceOf(key)).toBe(found);
      expect(isFound(pattern, helperKey(key, 'queue'))).toBe(true);
    }
    expect(selectorOf(`${found}x`).resourceOf(key)).toBeUndefined();
  });
});

describe('a selector', () => {
  const { resourceOf } = createKeySelectorFactory(OPTIONS[0])(undefined);

  it.each([
    '{lock_}|fence',
    '{lock_goods}:300|queue',
    '{shop_goods}:300',
    '{lock_goods:300}',
    '{lock_goods}',
    'lock_goods:300',
    '{lock_a}b',
    'xlock_{a}',
    '',
  ])('takes %j for a lock only if a resource makes it', (key) => {
    const resource = resourceOf(key);
    expect(resource).toBe(key === '{lock_goods}' ? 'goods' : undefined);
  });

  it.each([
    ['goods:*', 'goods:300', true],
    ['goods:*', 'goods:', true],
    ['goods:*', 'good:300', false],
    ['**', 'x', true],
    ['*:300', 'goods:300:300', true],
    ['*:300', 'goods:3000', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['ab*ba', 'aba', false],
    ['g?[o]ds', 'g?[o]ds', true],
    ['g?ods', 'goods', false],
    ['Goods', 'goods', false],
  ])('with %j selects %j: %s', (match, found, expected) => {
    const options: KeyOptions = { prefix: 'lock_', hashTag: 'family' };
    const key = createKeyFactory(options)(found);
    expect(createKeySelectorFactory(options)(match).resourceOf(key)).toBe(expected ? found : undefined);
  });

  it('sends few wildcards to the server, whatever the pattern has', () => {
    const { pattern } = createKeySelectorFactory(OPTIONS[0])(`a:b:c:d:e${'*x'.repeat(50)}`);
    expect(pattern).toBe('*lock_a*:b*');
  });

  it('refuses a module with a key function', () => {
    const selectorOf = createKeySelectorFactory({ ...OPTIONS[0], key: (resource) => resource });
    expect(() => selectorOf('goods:*')).toThrow(LockConfigError);
    expect(() => selectorOf('goods:*')).toThrow(/`key` function/);
  });
});
