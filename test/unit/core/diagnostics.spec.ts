import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type LockEvent, lockChannels, LockTimeoutError } from 'nestjs-redis-lock';
import { faultyLocks } from '../../support/locks.js';

describe('events', () => {
  const seen: [name: string, event: LockEvent][] = [];
  const names = Object.keys(lockChannels) as (keyof typeof lockChannels)[];
  const listeners = names.map((name) => {
    const listener = (event: unknown): void => void seen.push([name, event as LockEvent]);
    return { channel: `nestjs-redis-lock:${name}`, listener };
  });

  beforeEach(() => {
    seen.length = 0;
    for (const { channel, listener } of listeners) subscribe(channel, listener);
  });
  afterEach(() => {
    for (const { channel, listener } of listeners) unsubscribe(channel, listener);
  });

  it('report a lock from request to release, with its times', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    await lock.release();
    const place = { resource: 'goods:300', key: '{lock_goods}:300', instance: 'default' };
    expect(seen).toEqual([
      ['requested', place],
      ['granted', { ...place, waitedMs: 0, fencingToken: lock.fencingToken }],
      ['extended', place],
      ['released', { ...place, heldMs: 1_000 }],
    ]);
  });

  it('report refusals and losses', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    await locks.acquire('goods:300');
    await locks.tryAcquire('goods:300');
    await stranger.steal('{lock_goods}:300');
    await clock.advance(1_000);
    expect(seen.map(([name]) => name)).toEqual(['requested', 'granted', 'requested', 'refused', 'lost']);
    expect(seen[3]?.[1]).toMatchObject({ waitedMs: 0, reason: expect.any(LockTimeoutError) });
    // At its first renewal.
    expect(seen[4]?.[1]).toMatchObject({ heldMs: 900 });
  });

  it('never contain the owner, which could release the lock', async () => {
    const { locks, store } = faultyLocks();
    await locks.using('goods:300', () => undefined);
    const [instance] = (store.acquires[0]?.owner ?? '').split(':');
    expect(instance).toMatch(/^[\w-]+-[\w-]{16}$/);
    expect(JSON.stringify(seen)).not.toContain(instance);
  });
});
