import { describe, expect, it } from '@jest/globals';
import { QueuedOwners } from '../../../../lib/stores/token/queued-owners.js';

describe('QueuedOwners', () => {
  const MINUTE = 60_000;

  it('keeps owners with their keys until they are deleted', () => {
    const owners = new QueuedOwners();
    owners.add('one:1', 'goods:300', 0);
    expect([owners.has('one:1'), owners.keyOf('one:1')]).toEqual([true, 'goods:300']);
    owners.delete('one:1');
    expect([owners.has('one:1'), owners.keyOf('one:1'), owners.size]).toEqual([false, undefined, 0]);
  });

  it('drops owners that were not added again for two minutes', () => {
    const owners = new QueuedOwners();
    owners.add('waiting', 'goods:300', 0);
    for (let i = 0; i < 1_000; i += 1) owners.add(`gone:${i}`, 'goods:301', 0);
    for (let now = 3_000; now < 2 * MINUTE; now += 3_000) owners.add('waiting', 'goods:300', now);
    expect(owners.size).toBe(1_001);
    owners.add('new', 'goods:302', 2 * MINUTE);
    expect(owners.has('gone:0')).toBe(false);
    expect([owners.size, owners.keyOf('waiting'), owners.keyOf('new')]).toEqual([2, 'goods:300', 'goods:302']);
  });
});
