import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import type { RedisServer } from '../../support/redis/index.js';
import { ReplicatedTopology } from './replicated.js';
import type { Access, Topology } from './topology.js';

/**
 * A master and two replicas, and one address that leads to the master, as a service's name or a load balancer does. When they
 * part, it leads some to the old master still, and the others to the next one.
 */
export class PartitionTopology extends ReplicatedTopology implements Topology {
  private readonly proxies: RedisProxy[] = [];

  static async start(): Promise<PartitionTopology> {
    const set = await ReplicaSet.start({ replicas: 2, sentinels: 0 });
    return new PartitionTopology(set, set.servers[0]);
  }

  async access(): Promise<Access> {
    const way = await RedisProxy.start(this.master.url);
    this.proxies.push(way);
    return { places: [way.url], ways: [way] };
  }

  /** A replica becomes master, with the other one as its replica, for all but those on these ways: they stay with the old one. */
  async part(staying: readonly RedisProxy[]): Promise<void> {
    const [next, replica] = this.replicas;
    await this.replicated();
    await this.set.adminOf(next).replicaof('NO', 'ONE');
    await this.follow(replica, next);
    this.master = next;
    this.lead(this.proxies.filter((way) => !staying.includes(way)));
  }

  /** The old master becomes a replica, and forgets what only it knew; whoever stayed with it is led to the next one. */
  async rejoin(): Promise<void> {
    for (const server of this.replicas) await this.follow(server, this.master);
    await this.replicated();
    this.lead(this.proxies);
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
}
