import { asked } from './asked.js';
import { Redis } from 'ioredis';
import type { Clock } from '../../lib/clock/clock.js';
import type { AcquireReply, LockStore } from '../../lib/contract/store.js';
import { timestamp, type TimestampOptions } from 'nestjs-redis-lock/timestamp';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { asPort } from './client-port.js';
import { needWallClocks } from './server-clock/shim.js';
import { StoppedServers } from './server-clock/stopped-servers.js';
import { uniquePrefix } from './shared-redis.js';

needWallClocks();

/** A manual clock whose wall time moves only if a test sets it. */
class WallClock extends ManualClock {
  wallMs = Date.UTC(2026, 0, 1, 12);

  override wallTime(): number {
    return this.wallMs;
  }
}

/**
 * Timestamp stores on one key, with clocks that move only if a test moves them, and commands of other clients between
 * their own. The wall clock of the stores is not the server's.
 */
export class TimestampLocks {
  key = '';
  clock = new WallClock();
  /** One for each store. */
  readonly clients: Redis[] = [];
  servers!: StoppedServers;
  private owners = 0;

  async start(): Promise<void> {
    this.servers = await StoppedServers.start();
    this.renew();
  }

  get admin(): Redis {
    return this.servers.admin;
  }

  /** The protocol's time, in seconds. */
  get seconds(): number {
    return Math.floor(this.clock.wallMs / 1000);
  }

  /** Opens a store. Each function of `meanwhile` runs once, before the store's next command of that name. */
  async store(
    options: TimestampOptions,
    meanwhile: Record<string, () => Promise<unknown>> = {},
    url = this.servers.url,
  ): Promise<LockStore> {
    const client = new Redis(url);
    client.on('error', () => undefined);
    await client.ping();
    this.clients.push(client);
    const redis = new Proxy(client, {
      get: (target, name) => {
        const own = Reflect.get(target, name) as unknown;
        const before = meanwhile[String(name)];
        if (before === undefined) return typeof own === 'function' ? own.bind(target) : own;
        return async (...args: unknown[]): Promise<unknown> => {
          delete meanwhile[String(name)];
          await before();
          return Reflect.apply(own as (...given: unknown[]) => unknown, target, args);
        };
      },
    });
    const clock: Clock = this.clock;
    const none = (): never => {
      throw new Error('not needed');
    };
    const context = {
      clock,
      requestTimeoutMs: 1_000,
      prefix: 'lock_',
      redis: () => asPort(redis),
      open: none,
    };
    return timestamp(options)(context);
  }

  /** Lets time pass for leases, here and on the server. The wall clock of the stores stays as it is. */
  async pass(ms: number): Promise<void> {
    await this.servers.clock().advance(ms);
    await this.clock.advance(ms);
  }

  nextOwner(): string {
    this.owners += 1;
    return `instance:${this.owners}`;
  }

  acquire(store: LockStore, owner: string, leaseMs = 10_000): Promise<AcquireReply> {
    const { key } = this;
    return asked(store).acquire({ key, owner, mode: 'exclusive', leaseMs, wait: false, handoffMs: 3_000 });
  }

  async status(store: LockStore, owner: string, leaseMs?: number): Promise<string> {
    return (await this.acquire(store, owner, leaseMs)).status;
  }

  async release(store: LockStore, owner: string, closedForMs = 0): Promise<boolean> {
    return asked(store).release({ key: this.key, owner, mode: 'exclusive', closedForMs, handoffMs: 3_000 });
  }

  async extend(store: LockStore, owner: string, leaseMs = 10_000): Promise<string> {
    return (await store.extend([{ key: this.key, owner, mode: 'exclusive', leaseMs }]))[0];
  }

  value(): Promise<string | null> {
    return this.admin.get(this.key);
  }

  async clear(): Promise<void> {
    await Promise.all(this.clients.splice(0).map((client) => client.quit()));
    await this.admin.flushall();
    this.renew();
  }

  close(): Promise<void> {
    return this.servers.stop();
  }

  /** Each test has its own key and clock. */
  private renew(): void {
    this.key = `${uniquePrefix()}account:1_lock`;
    this.clock = new WallClock();
  }
}
