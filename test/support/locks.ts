import { Logger } from '@nestjs/common';
import { type LockService, MemoryStore, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { FaultyStore } from './faulty-store.js';

// Lost locks are warned of; here they are what is tested.
Logger.overrideLogger(false);

/** A lock service over a store that can be made to fail, and a clock that is moved by hand. */
export function faultyLocks(options: RedisLockModuleOptions = {}) {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock);
  const store = new FaultyStore(memory);
  const locks: LockService = createTestLocks({ clock, store, ...options });
  return { clock, memory, store, locks, stranger: new Stranger(memory, clock) };
}

const HAND_OFF = { handOffMs: 3_000, tokens: 1 };

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
    return (await this.store.ask(request)).status === 'granted';
  }

  async leave(key: string): Promise<boolean> {
    return this.store.release({ keys: [key], owner: `stranger:${this.asks}`, keepMs: 0, ...HAND_OFF });
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

/** A promise that is settled from outside. */
export function deferred<T = void>() {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}
