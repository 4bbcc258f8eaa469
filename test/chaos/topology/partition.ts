import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import type { RedisServer } from '../../support/redis/index.js';
import { caughtUp } from '../../support/caught-up.js';
import { keyOf } from '../workload/key.js';
import { leftoversAt } from './leftovers.js';
import type { Access, LockServer, Topology } from './topology.js';

/**
 * A master and two replicas, and one address that leads to the master, as a service's name or a load balancer does. When they
 * part, it leads some to the old master still, and the others to the next one.
 */
export class PartitionTopology implements Topology {
  private readonly proxies: RedisProxy[] = [];

  private constructor(
    private readonly set: ReplicaSet,
    private master: RedisServer,
  ) {}

  static async start(): Promise<PartitionTopology> {
    const set = await ReplicaSet.start({ replicas: 2, sentinels: 0 });
    return new PartitionTopology(set, set.servers[0]);
  }

  get version(): string {
    return this.master.version;
  }

  get servers(): readonly LockServer[] {
    return this.set.servers.map((server) => this.seen(server));
  }

  get victim(): LockServer {
    return this.seen(this.master);
  }

  async access(): Promise<Access> {
    const way = await RedisProxy.start(this.master.url);
    this.proxies.push(way);
    return { places: [way.url], ways: [way] };
  }

  /** A replica becomes master, with the other one as its replica, for all but those on these ways: they stay with the old one. */
  async part(staying: readonly RedisProxy[]): Promise<void> {
    const [next, replica] = this.set.servers.filter((server) => server !== this.master);
    await caughtUp(this.set.adminOf(this.master), 2, keyOf());
    await this.set.adminOf(next).replicaof('NO', 'ONE');
    await this.follow(replica, next);
    this.master = next;
    this.lead(this.proxies.filter((way) => !staying.includes(way)));
  }

  /** The old master becomes a replica, and forgets what only it knew; whoever stayed with it is led to the next one. */
  async rejoin(): Promise<void> {
    const others = this.set.servers.filter((server) => server !== this.master);
    for (const server of others) await this.follow(server, this.master);
    await caughtUp(this.set.adminOf(this.master), others.length, keyOf());
    this.lead(this.proxies);
  }

  leftovers(): Promise<readonly string[]> {
    return leftoversAt(this.victim.admin);
  }

  async close(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    await this.set.close();
  }

  /** Who is led there already stays undisturbed. */
  private lead(ways: readonly RedisProxy[]): void {
    for (const way of ways) way.leadTo(this.master.url);
  }

  private async follow(server: RedisServer, master: RedisServer): Promise<void> {
    await this.set.adminOf(server).replicaof('127.0.0.1', master.port);
  }

  private seen(server: RedisServer): LockServer {
    return { server, admin: this.set.adminOf(server), clock: undefined };
  }
}
