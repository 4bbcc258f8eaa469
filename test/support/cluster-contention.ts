import { Cluster, type ClusterOptions, type Redis } from 'ioredis';
import type { Lock, LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { type ClusterMember, RedisCluster, type RedisClusterStart } from './redis/index.js';
import { eventually, RedisLocks } from './redis-locks.js';

/** A cluster of its own, and those who contend for locks on it. */
export class ClusterContention {
  private running = new RedisLocks();
  private readonly clients: Cluster[] = [];

  private constructor(readonly cluster: RedisCluster) {}

  static async start(options?: RedisClusterStart): Promise<ClusterContention> {
    return new ClusterContention(await RedisCluster.start(options));
  }

  get warnings(): readonly string[] {
    return this.running.warnings;
  }

  get prefix(): string {
    return this.running.prefix;
  }

  /** The key of goods:300. */
  get key(): string {
    return this.running.keyOf('goods', '300');
  }

  /** One more module instance. */
  instance(options: RedisLockModuleOptions = {}): LockService {
    return this.running.start({ redis: { nodes: this.cluster.nodes }, waitMs: 30_000, ...options });
  }

  /** A client of the user's own. */
  client(options: ClusterOptions = {}): Cluster {
    const client = new Cluster([...this.cluster.nodes], options);
    client.on('error', () => undefined);
    this.clients.push(client);
    return client;
  }

  /** Begins to wait for goods:300; answers when the ask stands in the queue. */
  async enqueue(locks: LockService): Promise<{ readonly granted: Promise<Lock> }> {
    const before = await this.queueLength();
    const granted = locks.acquire('goods:300');
    granted.catch(() => undefined);
    await this.queueOf(before + 1);
    return { granted };
  }

  async queueLength(): Promise<number> {
    return (await this.owner()).zcard(`${this.key}|queue`);
  }

  async queueOf(length: number): Promise<void> {
    await eventually(`${length} are in the queue`, async () => (await this.queueLength()) === length);
  }

  /** The node that has goods:300. */
  async owner(): Promise<Redis> {
    return (await this.cluster.ownerOf(this.key)).admin;
  }

  /** On how many channels of that hash tag a node can tell of locks. */
  async listening({ admin }: Pick<ClusterMember, 'admin'>, tag = `${this.prefix}goods`): Promise<number> {
    const channels = (await admin.call('PUBSUB', 'SHARDCHANNELS', `nestjs-redis-lock:{${tag}}:*`)) as string[];
    return channels.length;
  }

  /** A family other than goods, with its own hash tag, whose locks are on that node. */
  async familyAt(member: ClusterMember): Promise<string> {
    for (let i = 0; ; i++) {
      const family = `relation${i}`;
      if ((await this.cluster.ownerOf(`{${this.prefix}${family}}:1`)) === member) return family;
    }
  }

  /** How many connections of modules and clients of this test there are, by name. */
  async connections(name: string): Promise<number> {
    const running = this.cluster.members.filter(({ server }) => server.pid !== undefined);
    const lists = await Promise.all(running.map(({ admin }) => admin.call('CLIENT', 'LIST') as Promise<string>));
    return [...lists.join('\n').matchAll(new RegExp(` name=${name} `, 'g'))].length;
  }

  /** Locks and queues that are there; fences stay. */
  async leftovers(): Promise<readonly string[]> {
    const keys = await Promise.all(this.cluster.masters.map(({ admin }) => admin.keys('*')));
    return keys.flat().filter((key) => !key.endsWith('|fence'));
  }

  /** Ends all module instances. */
  async end(): Promise<void> {
    await this.running.close();
  }

  /** Ends all who contend, and what they left. */
  async clear(): Promise<void> {
    await this.end();
    for (const client of this.clients.splice(0)) client.disconnect();
    this.running = new RedisLocks();
    await this.cluster.flush();
  }

  async close(): Promise<void> {
    await this.running.close();
    await this.cluster.close();
  }
}
