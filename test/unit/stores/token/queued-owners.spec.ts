import { describe, expect, it } from '@jest/globals';
import { QueuedOwners, RecentNames } from '../../../../lib/stores/token/queued-owners.js';

describe('QueuedOwners', () => {
  const MINUTE = 60_000;
  const ownership = (owner: string, key: string) => ({ owner, keys: [key], mode: 'exclusive' }) as const;

  it('keeps owners with their keys until they are deleted', () => {
    const owners = new QueuedOwners();
    owners.add(ownership('one:1', 'goods:300'), 0);
    expect([owners.has('one:1'), owners.get('one:1')]).toEqual([true, ownership('one:1', 'goods:300')]);
    owners.delete('one:1');
    expect([owners.has('one:1'), owners.get('one:1'), owners.size]).toEqual([false, undefined, 0]);
  });

  it('knows that an owner does not wait if a reply has granted its last request', () => {
    const owners = new QueuedOwners();
    owners.onGranted('never added');
    owners.add(ownership('one:1', 'goods:300'), 0);
    expect([owners.mayWait('never added'), owners.mayWait('one:1')]).toEqual([false, true]);
    owners.onGranted('one:1');
    // A handoff message for it may still arrive.
    expect([owners.mayWait('one:1'), owners.get('one:1')]).toEqual([false, ownership('one:1', 'goods:300')]);
    owners.add(ownership('one:1', 'goods:300'), 0);
    expect(owners.mayWait('one:1')).toBe(true);
  });

  it('drops owners that were not added again for two minutes', () => {
    const owners = new QueuedOwners();
    owners.add(ownership('waiting', 'goods:300'), 0);
    for (let i = 0; i < 1_000; i += 1) owners.add(ownership(`gone:${i}`, 'goods:301'), 0);
    for (let now = 3_000; now < 2 * MINUTE; now += 3_000) owners.add(ownership('waiting', 'goods:300'), now);
    expect(owners.size).toBe(1_001);
    owners.add(ownership('new', 'goods:302'), 2 * MINUTE);
    expect(owners.has('gone:0')).toBe(false);
    expect(owners.size).toBe(2);
    expect(owners.get('waiting')?.keys).toEqual(['goods:300']);
    expect(owners.get('new')?.keys).toEqual(['goods:302']);
  });
});

describe('RecentNames', () => {
  it('are kept until their locks are open', () => {
    const owners = new RecentNames();
    owners.add('one:1', 0, 500);
    owners.add('one:2', 100, 200);
    expect(['one:1', 'one:2', 'one:3'].map((owner) => owners.has(owner, 299))).toEqual([true, true, false]);
    expect(['one:1', 'one:2'].map((owner) => owners.has(owner, 300))).toEqual([true, false]);
    expect(owners.has('one:1', 500)).toBe(false);
  });

  it('are dropped behind one that is kept for longer', () => {
    const owners = new RecentNames();
    owners.add('long', 0, 1_000_000);
    for (let now = 0; now < 10_000; now += 1) owners.add(`brief:${now}`, now, 10);
    expect(owners.size).toBeLessThanOrEqual(129);
    expect([owners.has('long', 10_000), owners.has('brief:9999', 10_000)]).toEqual([true, true]);
  });

  it('are all kept while none of them is over', () => {
    const owners = new RecentNames();
    for (let i = 0; i < 1_000; i += 1) owners.add(`one:${i}`, 0, 500);
    expect(owners.size).toBe(1_000);
    expect(owners.has('one:0', 499)).toBe(true);
  });
});
