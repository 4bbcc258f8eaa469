import { asked } from './asked.js';
import { Logger } from '@nestjs/common';
import type { Lock, LockOptions, LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import type { Servers } from '../../lib/contract/server-connection.js';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { LockRuntime } from '../../lib/lock-runtime.js';
import { loggerOf } from '../../lib/nest/logger.js';
import { outcome } from './async.js';
import { FaultyStore } from './faulty-store.js';
import type { InstanceOptions } from './redis-locks.js';

// The tests lose locks on purpose, and each loss is logged.
Logger.overrideLogger(false);

/** Callers wait for a store that fails until `waitMs` is over. What ends this sooner is tested in `outage.spec.ts`. */
const PATIENT = { unavailableAfterMs: Infinity };

/**
 * Returns a lock service with a manual clock and a store whose faults the test controls.
 *
 * @param connections the connections that the store reports. Default: none.
 * @param serverOf returns the server of a key. Default: there is one server.
 * @param clock Default: one whose random numbers are all 0.5.
 */
export function faultyLocks(
  { passing, requestTimeoutMs, ...options }: InstanceOptions = {},
  connections?: Servers['connections'],
  serverOf?: Servers['serverOf'],
  clock = new ManualClock(),
) {
  const start = (store: FaultyStore, own: RedisLockModuleOptions): LockService => {
    const internal = { clock, passing, requestTimeoutMs, logger: loggerOf() };
    return LockRuntime.start({ ...PATIENT, ...own, store: store.factory }, undefined, internal).service;
  };
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory, connections, serverOf);
  const locks = start(store, options);
  /** Returns another module instance on the same keys, with a faulty store of its own. */
  const neighbour = (others: RedisLockModuleOptions = options) => {
    const other = new FaultyStore(memory);
    return { store: other, locks: start(other, others) };
  };
  return { clock, memory, store, locks, neighbour, stranger: new Stranger(memory) };
}

/** The key of `goods:300`. */
export const KEY = '{lock_goods}:300';

/** Returns an instance that waits for `goods:300` in the store's queue, while the stranger holds it. */
export async function queuedLocks(options: LockOptions = {}) {
  const all = faultyLocks();
  await all.stranger.take(KEY);
  const abort = new AbortController();
  const waiting = outcome(all.locks.acquire('goods:300', { waitMs: 600_000, signal: abort.signal, ...options }));
  await all.clock.advance(0);
  return {
    ...all,
    waiting,
    abort,
    lock: () => waiting.value as Lock,
    owners: () => new Set(all.store.acquires.map(({ owner }) => owner)),
    holder: async () => (await all.memory.inspect(KEY))?.holder,
  };
}

const HANDOFF_MS = 3_000;

/** Another process, as the store sees it. */
export class Stranger {
  private attempts = 0;

  constructor(private readonly store: MemoryStore) {}

  /** Acquires a key. Returns false if it is not free. */
  async take(key: string, leaseMs = 600_000): Promise<boolean> {
    this.attempts += 1;
    const owner = `stranger:${this.attempts}`;
    const request = { key, owner, mode: 'exclusive', leaseMs, wait: false, handoffMs: HANDOFF_MS } as const;
    return (await asked(this.store).acquire(request)).status === 'granted';
  }

  /** Releases a key. Another owner in its queue gets it for `handoffMs`. */
  async leave(key: string, handoffMs = HANDOFF_MS): Promise<boolean> {
    const owner = `stranger:${this.attempts}`;
    return asked(this.store).release({ key, owner, mode: 'exclusive', closedForMs: 0, handoffMs });
  }

  /** Removes the key and acquires it, as a FLUSHALL and a new lock would. */
  async steal(key: string): Promise<void> {
    this.store.table.rows.delete(key);
    await this.take(key);
  }
}
