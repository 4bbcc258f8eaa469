import { Logger } from '@nestjs/common';
import {
  type Lock,
  type LockOptions,
  type LockService,
  MemoryStore,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from './async.js';
import { FaultyStore } from './faulty-store.js';

// Kept here for the specs that still import them from this file.
export { deferred, outcome };

// Lost locks are warned of; here they are what is tested.
Logger.overrideLogger(false);

/** A lock service over a store that can be made to fail, and a clock that is moved by hand. */
export function faultyLocks(options: RedisLockModuleOptions = {}) {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const locks: LockService = createTestLocks({ clock, store, ...options });
  /** One more module instance on the same keys, with a way to them of its own. */
  const neighbour = (others: RedisLockModuleOptions = options) => {
    const way = new FaultyStore(memory);
    return { store: way, locks: createTestLocks({ clock, store: way, ...others }) };
  };
  return { clock, memory, store, locks, neighbour, stranger: new Stranger(memory, clock) };
}

/** The key of goods:300. */
export const LOCKED_KEY = '{lock_goods}:300';

/** An instance that waits for goods:300 in the store's queue, behind a stranger who holds it. */
export async function queuedLocks(options: LockOptions = {}, strangersLeaseMs?: number) {
  const all = faultyLocks();
  await all.stranger.take(LOCKED_KEY, strangersLeaseMs);
  const abort = new AbortController();
  const waiting = outcome(all.locks.acquire('goods:300', { waitMs: 600_000, signal: abort.signal, ...options }));
  await all.clock.advance(0);
  return {
    ...all,
    waiting,
    abort,
    lock: () => waiting.value as Lock,
    owners: () => new Set(all.store.asks.map(({ owner }) => owner)),
    holder: async () => (await all.memory.inspect(LOCKED_KEY))?.holder,
  };
}

const HAND_OFF = { handoffMs: 3_000, tokens: 17 };

/** Somebody else's process, as the store sees it. */
export class Stranger {
  private asks = 0;

  constructor(
    private readonly store: MemoryStore,
    private readonly clock: ManualClock,
  ) {}

  /** Takes a free key; false if it is not free. */
  async take(key: string, leaseMs = 600_000): Promise<boolean> {
    this.asks += 1;
    const expiresAt = this.clock.now() + 1_000;
    const request = {
      keys: [key],
      owner: `stranger:${this.asks}`,
      mode: 'exclusive',
      leaseMs,
      queue: false,
      expiresAt,
      ...HAND_OFF,
    } as const;
    return (await this.store.acquire(request)).status === 'granted';
  }

  async leave(key: string): Promise<boolean> {
    return this.store.release({
      keys: [key],
      owner: `stranger:${this.asks}`,
      mode: 'exclusive',
      keepMs: 0,
      ...HAND_OFF,
    });
  }

  /** Takes the key away from whoever has it, as a flush and a new lock would. */
  async steal(key: string): Promise<void> {
    await this.remove(key);
    await this.take(key);
  }

  /** Deletes the key. */
  async remove(key: string): Promise<void> {
    const holder = await this.store.inspect(key);
    if (holder !== null) Reflect.get(this.store, 'table').delete(key);
  }
}
