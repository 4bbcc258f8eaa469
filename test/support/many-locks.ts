import type { Lock, LockService } from 'nestjs-redis-lock';
import { eventually } from './async.js';
import { Contention } from './contention.js';
import type { RedisProxy } from './proxy.js';
import type { RequestLog } from './request-log.js';
import type { InstanceOptions } from './redis-locks.js';
import { renewAllOf } from './inside.js';

/** An instance, the proxy that it connects by, and its requests. */
export interface Way {
  readonly locks: LockService;
  readonly proxy: RedisProxy;
  readonly log: RequestLog;
}

export const TTL_MS = 60_000;
export const COUNT = 60;
export const RESOURCES: readonly string[] = Array.from({ length: COUNT }, (_, i) => `goods:${i}`);

/** Instances that acquire, renew and release many locks at once. */
export class ManyLocks {
  private constructor(readonly here: Contention) {}

  static async start(): Promise<ManyLocks> {
    return new ManyLocks(await Contention.start());
  }

  /** Starts an instance behind a proxy. The server knows its scripts. */
  async behindProxy(options: InstanceOptions = {}, client: object = {}): Promise<Way> {
    const { proxy, log } = await this.here.way();
    const redis = { host: '127.0.0.1', port: proxy.port, ...client };
    const locks = this.here.instance({ redis, ttlMs: TTL_MS, requestTimeoutMs: 2_000, ...options });
    const held = await this.acquireAll(locks);
    renewAllOf(locks);
    await this.releaseAll(held);
    log.clear();
    return { locks, proxy, log };
  }

  get keys(): string[] {
    return RESOURCES.map((resource) => this.here.keyOf(resource));
  }

  /** Returns how many of the locks are held. */
  locked(): Promise<number> {
    return this.here.admin.exists(...this.keys);
  }

  /** Returns the number of locks that have waiters. */
  waitedFor(): Promise<number> {
    return this.here.admin.exists(...this.keys.map((key) => `${key}|queue`));
  }

  async halveLeases(): Promise<void> {
    await Promise.all(this.keys.map((key) => this.here.admin.pexpire(key, TTL_MS / 2)));
  }

  /** Returns whether all leases are longer than the halved ones. */
  async areRenewed(): Promise<boolean> {
    return Math.min(...(await Promise.all(this.keys.map((key) => this.here.admin.pttl(key))))) > TTL_MS * 0.6;
  }

  acquireAll(locks: LockService): Promise<Lock[]> {
    return Promise.all(RESOURCES.map((resource) => locks.acquire(resource)));
  }

  /** Returns how many locks were held until their release. */
  async releaseAll(held: readonly Lock[]): Promise<number> {
    return (await Promise.all(held.map((lock) => lock.release()))).filter(Boolean).length;
  }

  /** Releases the locks. Returns what was wrong: a lock that was lost or not exclusive, or that does not end. */
  async faultsOf(held: readonly Lock[]): Promise<readonly string[]> {
    const other = this.here.instance();
    const tried = await Promise.all(RESOURCES.map((resource) => other.tryAcquire(resource)));
    const faults = tried.flatMap((lock) => (lock === null ? [] : [`two hold ${lock.resource}`]));
    faults.push(...held.flatMap(({ signal, resource }) => (signal.aborted ? [`${resource} is lost`] : [])));
    const released = await this.releaseAll(held);
    if (released < COUNT) faults.push(`${released} were released`);
    await eventually('nothing is left', async () => (await this.here.leftovers()).length === 0);
    return faults;
  }

  async clear(): Promise<void> {
    await this.here.admin.config('SET', 'maxmemory', '0');
    await this.here.clear();
    await this.here.admin.acl('DELUSER', 'guest');
  }
}
