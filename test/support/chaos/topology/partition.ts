import { RedisProxy } from '../../proxy.js';
import { ReplicaSet } from '../../redis/replica-set.js';
import type { RedisServer } from '../../redis/index.js';
import { ReplicatedTopology } from './replicated.js';
import type { Access, Topology } from './topology.js';

/**
 * A master and two replicas behind one address, as behind a load balancer. After the partition, the address leads some
 * processes to the old master and the others to the new one.
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

  /** Promotes a replica, with the other one as its replica. Processes on these proxies stay with the old master. */
  async part(staying: readonly RedisProxy[]): Promise<void> {
    const [next, replica] = this.replicas;
    await this.replicated();
    // Only the next master may acknowledge writes now. The old one could renew a lock by the other replica otherwise,
    // and the next master would not know of the renewal.
    await this.follow(replica, next);
    await this.replicated(1);
    await this.set.adminOf(next).replicaof('NO', 'ONE');
    this.master = next;
    this.lead(this.proxies.filter((way) => !staying.includes(way)));
  }

  /** Makes the old master a replica, which loses its own writes. All proxies lead to the new master. */
  async rejoin(): Promise<void> {
    for (const server of this.replicas) await this.follow(server, this.master);
    await this.replicated();
    this.lead(this.proxies);
  }

  async close(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    await this.set.close();
  }

  /** Leads these proxies to the master. Connections that lead there already stay open. */
  private lead(ways: readonly RedisProxy[]): void {
    for (const way of ways) way.leadTo(this.master.url);
  }

  private async follow(server: RedisServer, master: RedisServer): Promise<void> {
    await this.set.adminOf(server).replicaof('127.0.0.1', master.port);
  }
}
