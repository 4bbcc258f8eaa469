import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type LockEvent, lockChannels, LockTimeoutError } from 'nestjs-redis-lock';
import { faultyLocks, outcome } from '../support/locks.js';

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
    const place = {
      id: expect.stringMatching(/^[0-9a-f]{12}-\d+$/),
      resource: 'goods:300',
      family: 'goods',
      key: '{lock_goods}:300',
      instance: 'default',
      mode: 'exclusive',
      permits: undefined,
      method: undefined,
      label: undefined,
    };
    expect(seen).toEqual([
      ['requested', place],
      ['granted', { ...place, waitedMs: 0, fencingToken: lock.fencingToken }],
      ['extended', place],
      ['released', { ...place, heldMs: 1_000 }],
    ]);
  });

  it('have one id for a call, and another for the next', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 3_000 });
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    const busy = locks.tryAcquire('goods:300');
    expect(await busy).toBeNull();
    await lock.release();
    const ids = seen.map(([name, { id }]) => [name, id] as const);
    const [first, second] = [ids[0]?.[1], ids[3]?.[1]];
    expect(second).not.toBe(first);
    expect(ids).toEqual([
      ['requested', first],
      ['granted', first],
      ['extended', first],
      ['requested', second],
      ['refused', second],
      ['released', first],
    ]);
  });

  it('report how long a caller has waited that is refused', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    const refused = outcome(locks.acquire('goods:300', { waitMs: 400 }));
    await clock.advance(400);
    expect(refused.error).toBeInstanceOf(LockTimeoutError);
    expect(seen.at(-1)).toEqual(['refused', expect.objectContaining({ waitedMs: 400, outcome: 'timeout' })]);
    await lock.release();
  });

  it('have an id for each of several locks, from request to release', async () => {
    const { locks } = faultyLocks();
    await locks.using(['account:1', 'account:2', 'goods:3'], () => undefined);
    const ids = [...new Set(seen.map(([, { id }]) => id))];
    const eventsOf = (of: string) => seen.filter(([, { id }]) => id === of);
    const calls = ids.map((id) => eventsOf(id).map(([name, { resource }]) => `${name} ${resource}`));
    expect(calls.toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual(
      ['account:1', 'account:2', 'goods:3'].map((resource) =>
        ['requested', 'granted', 'released'].map((name) => `${name} ${resource}`),
      ),
    );
  });

  it('keep the id of a waiter that gets the lock from another caller', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300');
    const waiting = locks.acquire('goods:300', { mode: 'exclusive', label: 'second' });
    await clock.advance(10);
    await lock.release();
    await (await waiting).release();
    const own = seen.filter(([, { label }]) => label === 'second');
    expect(own.map(([name]) => name)).toEqual(['requested', 'granted', 'released']);
    expect(new Set(own.map(([, { id }]) => id)).size).toBe(1);
  });

  it('show up to 128 printable characters of a label', async () => {
    const { locks } = faultyLocks();
    await locks.using('goods:300', { label: `a\nb\u202e${'x'.repeat(500)}` }, () => undefined);
    expect(new Set(seen.map(([, { label }]) => label))).toEqual(new Set([`a?b?${'x'.repeat(124)}`]));
    await expect(locks.acquire('goods:300', { label: 7 as never })).rejects.toThrow(
      'the options of a lock: label is 7; expected a string.',
    );
  });

  it('say how a lock is shared', async () => {
    const { locks } = faultyLocks();
    await locks.using('goods:300', { mode: 'shared' }, () => undefined);
    await locks.using('goods:300', { permits: 3 }, () => undefined);
    const granted = seen.filter(([name]) => name === 'granted').map(([, { mode, permits }]) => [mode, permits]);
    expect(granted).toEqual([
      ['shared', undefined],
      ['shared', 3],
    ]);
  });

  it('report refusals and losses', async () => {
    const { clock, locks, stranger } = faultyLocks({ ttlMs: 3_000 });
    await locks.acquire('goods:300');
    await locks.tryAcquire('goods:300');
    await stranger.steal('{lock_goods}:300');
    await clock.advance(1_000);
    expect(seen.map(([name]) => name)).toEqual(['requested', 'granted', 'requested', 'refused', 'lost']);
    expect(seen[3]?.[1]).toMatchObject({ waitedMs: 0, reason: expect.any(LockTimeoutError), outcome: 'busy' });
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
