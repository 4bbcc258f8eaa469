import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-redis-lock';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { faultyLocks } from '../support/locks.js';

describe('the ping of a store', () => {
  it('in memory has no server', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    for (const options of [{}, { lockDelayMs: 1_000 }]) {
      const locks = createTestLocks({ clock, store: () => store, ...options });
      expect(await locks.ping()).toEqual({ isUp: true, handoff: 'subscription', degraded: undefined, servers: [] });
    }
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
    expect((error as Error).message).toBe(
      'list(): memory() cannot list its locks; use a store that can, such as token().',
    );
  });

  it('is there in memory, even with a lock delay', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    for (const options of [{}, { lockDelayMs: 1_000 }]) {
      const locks = createTestLocks({ clock, store: () => store, ...options });
      const lock = await locks.acquire('goods:300');
      const seen = [];
      for await (const { resource, isOwn } of locks.list({ match: 'goods:*' })) seen.push([resource, isOwn]);
      expect(seen).toEqual([['goods:300', true]]);
      await lock.release();
    }
  });
});
