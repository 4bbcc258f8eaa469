import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockUnavailableError, MemoryStore } from 'nestjs-redis-lock';
import type { LockStore } from 'nestjs-redis-lock/store';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

describe('the ping of a store', () => {
  it('in memory has no server', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    for (const options of [{}, { lockDelayMs: 1_000 }]) {
      const locks = createTestLocks({ clock, store, ...options });
      expect(await locks.ping()).toEqual({ isUp: true, handoff: 'subscription', degraded: undefined, servers: [] });
    }
  });

  it('without a ping of its own is an inspection', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('inspect');
    const pinging = outcome(locks.ping());
    await clock.advance(7);
    store.deliver('inspect');
    await clock.advance(0);
    expect(pinging.value).toEqual({
      isUp: true,
      handoff: 'subscription',
      degraded: undefined,
      servers: [{ server: 'memory()', isUp: true, latencyMs: 7, error: undefined }],
    });
  });

  it('without a ping of its own is down if the inspection fails or takes too long', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 300 });
    store.lose('inspect', new LockUnavailableError('cut off'));
    expect(await locks.ping()).toMatchObject({ isUp: false, servers: [{ isUp: false, error: 'cut off' }] });
    store.lose('inspect');
    store.hold('inspect');
    const pinging = outcome(locks.ping());
    await clock.advance(300);
    expect(pinging.value).toMatchObject({ isUp: false, servers: [{ latencyMs: undefined }] });
    expect(pinging.value?.servers[0].error).toMatch(/no reply within 300 ms/);
  });

  it('that throws is down', async () => {
    const clock = new ManualClock();
    const memory = new MemoryStore(clock);
    const store: LockStore = Object.assign(Object.create(memory) as LockStore, {
      ping: () => Promise.reject(new Error('a defect')),
    });
    const ping = await createTestLocks({ clock, store }).ping();
    expect(ping).toMatchObject({ isUp: false, servers: [{ server: 'memory()', isUp: false, error: 'a defect' }] });
  });
});

describe('the list of a store', () => {
  it('is refused if the store has none', async () => {
    const { locks } = faultyLocks();
    const error: unknown = await locks
      .list()
      .next()
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toBe('list(): memory() cannot list its locks; use a store with `list`.');
  });

  it('is there in memory, even with a lock delay', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    for (const options of [{}, { lockDelayMs: 1_000 }]) {
      const locks = createTestLocks({ clock, store, ...options });
      const lock = await locks.acquire('goods:300');
      const seen = [];
      for await (const { resource, isOwn } of locks.list({ match: 'goods:*' })) seen.push([resource, isOwn]);
      expect(seen).toEqual([['goods:300', true]]);
      await lock.release();
    }
  });
});
