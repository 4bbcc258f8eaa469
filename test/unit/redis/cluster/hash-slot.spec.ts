import { describe, expect, it } from '@jest/globals';
import { Command } from 'ioredis';
import { hashTag } from '../../../../lib/core/keys/resource-key.js';
import { slotOfTag } from '../../../../lib/redis/cluster/hash-slot.js';

const slotOf = (key: string): number => slotOfTag(hashTag(key));

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
