import { describe, expect, it } from '@jest/globals';
import { hashTag } from '../../../lib/keys/resource-key.js';
import { FenceKeys, slotOfTag } from '../../../lib/redis/slots.js';
import { Command } from 'ioredis';

const slotOf = (key: string): number => slotOfTag(hashTag(key));

describe('FenceKeys', () => {
  it.each(['lock_', '', 'tenant:é_'])('keep a fence in the slot of each key, with prefix %j', (prefix) => {
    const fences = new FenceKeys(prefix);
    for (let i = 0; i < 200; i += 1) {
      const key = `{${prefix}family${i}}:300`;
      expect(slotOf(fences.of(key))).toBe(slotOf(key));
      expect(fences.of(key).startsWith(`{${prefix}`)).toBe(true);
    }
  });

  it('are one for each slot at most', () => {
    const fences = new FenceKeys('lock_');
    const names = new Set(Array.from({ length: 60_000 }, (_, i) => fences.of(`{lock_family${i}}`)));
    expect(names.size).toBeLessThanOrEqual(16_384);
    expect(names.size).toBeGreaterThan(15_000);
  });

  it('are the shared fence in its own slot', () => {
    const fences = new FenceKeys('lock_');
    expect(fences.of('{lock_}:1')).toBe(fences.shared);
  });

  it('are the same in every instance', () => {
    const keys = Array.from({ length: 100 }, (_, i) => `{lock_family${i}}:1`);
    const [one, other] = [new FenceKeys('lock_'), new FenceKeys('lock_')];
    const names = keys.map((key) => one.of(key));
    expect(keys.toReversed().map((key) => other.of(key))).toEqual(names.toReversed());
  });
});

describe('the slot of a key', () => {
  it.each([
    'goods',
    '{lock_goods}:300',
    'app:{lock_goods}:300|queue',
    'a{}b',
    '{}',
    'a{b',
    'a}b{c',
    'a}b{c}d',
    '{a}{b}',
    '{{a}}',
    'Straße:{Ωmega}:🔒',
    'goods:{300€ and 🔒}',
  ])('%s is the one that ioredis computes', (key) => {
    expect(slotOf(key)).toBe(new Command('get', [key]).getSlot());
  });

  it('is that of the specification', () => {
    expect(slotOf('123456789')).toBe(0x31c3);
  });
});
