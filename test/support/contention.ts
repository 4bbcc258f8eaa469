import { Redis } from 'ioredis';
import type { Lock, LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { LockProcess } from './lock-process.js';
import { RedisProxy } from './proxy.js';
import { type RedisServer, startRedis } from './redis/index.js';
import { eventually, RedisLocks, type InstanceOptions } from './redis-locks.js';
import { RequestLog } from './request-log.js';
import { twoWays } from './two-ways.js';

/** A Redis server and module instances that contend for `goods:300` on it. */
export class Contention {
  private opened: RedisLocks | undefined;
  private readonly processes: LockProcess[] = [];
  private readonly proxies: RedisProxy[] = [];
  private readonly clients: Redis[] = [];

  protected constructor(
    readonly server: RedisServer,
    readonly admin: Redis,
  ) {}

  static async start(): Promise<Contention> {
    const server = await startRedis({ local: true });
    return new Contention(server, new Redis(server.url));
  }

  get warnings(): readonly string[] {
    return this.running.warnings;
  }

  get prefix(): string {
    return this.running.prefix;
  }

  get key(): string {
    return this.keyOf('goods:300');
  }

  /** The key of a resource of two segments. */
  keyOf(resource: string): string {
    const [family, id] = resource.split(':');
    return this.running.keyOf(family, id);
  }

  /** Starts one more module instance. */
  instance(options: InstanceOptions = {}): LockService {
    return this.running.start({ redis: this.server.url, ...options });
  }

  /** Starts one more in its own process. */
  async process(options: RedisLockModuleOptions = {}): Promise<LockProcess> {
    const { prefix } = this.running;
    const started = await LockProcess.start({ redis: this.server.url, waitMs: 100_000, prefix, ...options });
    this.processes.push(started);
    return started;
  }

  /** Opens a faulty proxy to the server, with a log of its requests. */
  async way(): Promise<{ proxy: RedisProxy; log: RequestLog }> {
    const proxy = await RedisProxy.start(this.server.url);
    this.proxies.push(proxy);
    return { proxy, log: new RequestLog(proxy) };
  }

  /** Returns a client that sends requests by one proxy and receives handoffs by another. */
  client(asking: string, listening: string): Redis {
    const client = twoWays(asking, listening);
    this.clients.push(client);
    return client;
  }

  /** Acquires the lock, so that others wait. */
  holder(options: RedisLockModuleOptions = {}): Promise<Lock> {
    return this.instance(options).acquire('goods:300');
  }

  /** Starts to wait for the lock. Resolves once the request is in the queue. */
  async enqueue<T>(acquire: () => Promise<T>): Promise<{ readonly granted: Promise<T> }> {
    const before = await this.queueLength();
    const granted = acquire();
    granted.catch(() => undefined);
    await this.queueOf(before + 1);
    return { granted };
  }

  /** Subscribes two or more instances to handoffs: each waits once for a lock that another one holds. */
  async subscribe(...instances: readonly LockService[]): Promise<void> {
    for (const [i, waiter] of instances.entries()) {
      const lock = await instances[(i + 1) % instances.length].acquire('goods:300');
      const { granted } = await this.enqueue(() => waiter.acquire('goods:300'));
      await lock.release();
      await (await granted).release();
    }
  }

  /** Returns the channels of the instances that are subscribed. */
  async channels(): Promise<readonly string[]> {
    return (await this.admin.pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[];
  }

  /** Returns the number of subscribed instances: those that wait, or have waited. */
  async listening(): Promise<number> {
    return (await this.channels()).length;
  }

  queueLength(): Promise<number> {
    return this.admin.zcard(`${this.key}|queue`);
  }

  async queueOf(length: number): Promise<void> {
    await eventually(`${length} are in the queue`, async () => (await this.queueLength()) === length);
  }

  /** Returns the number of subscriber connections. */
  async subscribers(): Promise<number> {
    return (await this.subscriberIds()).length;
  }

  /** Kills the subscriber connections. */
  async cutSubscribers(): Promise<void> {
    for (const id of await this.subscriberIds()) await this.admin.call('CLIENT', 'KILL', 'ID', id);
  }

  /** Returns what starts the module instances of one test. */
  protected open(): RedisLocks {
    return new RedisLocks();
  }

  private get running(): RedisLocks {
    return (this.opened ??= this.open());
  }

  private async subscriberIds(): Promise<readonly string[]> {
    const clients = (await this.admin.client('LIST')) as string;
    return [...clients.matchAll(/^id=(\d+) .* name=nestjs-redis-lock:handoffs /gm)].map(([, id]) => id);
  }

  /** Returns the present locks and queues. Fence keys do not count. */
  async leftovers(): Promise<readonly string[]> {
    return (await this.admin.keys('*')).filter((key) => !key.endsWith('|fence'));
  }

  /** Closes all instances and deletes their keys. */
  async clear(): Promise<void> {
    for (const proxy of this.proxies) for (const direction of ['requests', 'replies'] as const) proxy.resume(direction);
    await Promise.all(this.processes.splice(0).map((process) => process.kill()));
    await this.running.close();
    for (const client of this.clients.splice(0)) client.disconnect();
    await Promise.all(this.proxies.splice(0).map((proxy) => proxy.close()));
    this.opened = undefined;
    await this.admin.flushall();
  }

  async close(): Promise<void> {
    await this.running.close();
    this.admin.disconnect();
    await this.server.stop();
  }
}
