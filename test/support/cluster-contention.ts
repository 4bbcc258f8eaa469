import { Cluster, type ClusterOptions } from 'ioredis';
import type { Lock, LockService } from 'nestjs-redis-lock';
import { type ClusterMember, RedisCluster, type RedisClusterStart } from './redis/index.js';
import { eventually, RedisLocks, type InstanceOptions } from './redis-locks.js';
import { clocksAhead } from './server-clock/wall-clock.js';

/** A cluster and module instances that contend for locks on it. */
export class ClusterContention {
  private running = new RedisLocks();
  private readonly clients: Cluster[] = [];

  cluster!: RedisCluster;

  /** @param ahead how many seconds the clock of each master is ahead of the machine's, which needs gcc. Default: 0. */
  constructor(
    private readonly options: RedisClusterStart = {},
    private readonly ahead: readonly number[] = [],
  ) {}

  async start(): Promise<this> {
    const { ahead, options } = this;
    const clocks = ahead.length === 0 ? {} : { environments: await clocksAhead(...ahead) };
    this.cluster = await RedisCluster.start({ ...options, ...clocks });
    return this;
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

  /** Starts one more module instance. */
  instance(options: InstanceOptions = {}): LockService {
    return this.running.start({ redis: { nodes: this.cluster.nodes }, ...options });
  }

  /** Opens a client as a caller would give one to the module. */
  client(options: ClusterOptions = {}): Cluster {
    const client = new Cluster([...this.cluster.nodes], options);
    client.on('error', () => undefined);
    this.clients.push(client);
    return client;
  }

  /** Starts to wait for goods:300. Resolves once the request is in the queue. */
  async enqueue(locks: LockService): Promise<{ readonly granted: Promise<Lock> }> {
    const before = await this.queueLength();
    const granted = locks.acquire('goods:300');
    granted.catch(() => undefined);
    await this.queueOf(before + 1);
    return { granted };
  }

  async queueLength(): Promise<number> {
    const { admin } = await this.cluster.ownerOf(this.key);
    return admin.zcard(`${this.key}|queue`);
  }

  async queueOf(length: number): Promise<void> {
    await eventually(`${length} are in the queue`, async () => (await this.queueLength()) === length);
  }

  /** Returns whether that instance is subscribed for goods on a node. One that holds a lock for long is, too. */
  async isSubscribed({ engine }: LockService, node: Pick<ClusterMember, 'admin'>): Promise<boolean> {
    return (await this.channels(node)).some((channel) => channel.endsWith(`:v2-${engine.instanceId}`));
  }

  /** Returns the subscribed channels for goods on a node. */
  async channels({ admin }: Pick<ClusterMember, 'admin'>): Promise<readonly string[]> {
    return (await admin.call('PUBSUB', 'SHARDCHANNELS', `*nestjs-redis-lock:{${this.prefix}goods}:*`)) as string[];
  }

  /** Returns a family other than goods whose hash tag is on that node. */
  async familyAt(member: ClusterMember): Promise<string> {
    for (let i = 0; ; i++) {
      const family = `relation${i}`;
      if ((await this.cluster.ownerOf(`{${this.prefix}${family}}:1`)) === member) return family;
    }
  }

  /** Returns the number of connections of this test's modules and clients, by name. */
  async connections(name: string): Promise<number> {
    const running = this.cluster.members.filter(({ server }) => server.pid !== undefined);
    const lists = await Promise.all(running.map(({ admin }) => admin.call('CLIENT', 'LIST') as Promise<string>));
    return [...lists.join('\n').matchAll(new RegExp(` name=${name} `, 'g'))].length;
  }

  /** Returns the present locks and queues. Fence keys do not count. */
  async leftovers(): Promise<readonly string[]> {
    const keys = await Promise.all(this.cluster.masters.map(({ admin }) => admin.keys('*')));
    return keys.flat().filter((key) => !key.endsWith('|fence'));
  }

  /** Closes all module instances. */
  async end(): Promise<void> {
    await this.running.close();
  }

  /** Closes all instances and deletes their keys. */
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
