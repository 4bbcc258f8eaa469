import { caughtUp } from '../../caught-up.js';
import { RedisProxy } from '../../proxy.js';
import type { RedisServer } from '../../redis/index.js';
import { ReplicaSet } from '../../redis/replica-set.js';
import { KEY } from '../workload/key.js';
import type { Access, LockServer, Topology } from './topology.js';

/** A master and two replicas. One of them takes its place. */
abstract class ReplicatedTopology {
  protected master: RedisServer;

  protected constructor(protected readonly set: ReplicaSet) {
    [this.master] = set.servers;
  }

  get servers(): readonly LockServer[] {
    return this.set.servers.map((server) => ({ server, admin: this.set.adminOf(server) }));
  }

  get victim(): LockServer {
    return { server: this.master, admin: this.set.adminOf(this.master) };
  }

  /** Returns all servers but the current master. */
  protected get replicas(): readonly RedisServer[] {
    return this.set.servers.filter((server) => server !== this.master);
  }

  /** Waits until this number of replicas has all writes of the master. Default: all. */
  protected replicated(replicas = this.replicas.length): Promise<void> {
    return caughtUp(this.victim.admin, replicas, KEY);
  }

  protected async follow(server: RedisServer, master: RedisServer): Promise<void> {
    await this.set.adminOf(server).replicaof('127.0.0.1', master.port);
  }
}

/** A master, two replicas, and one Sentinel, which decides alone. */
export class SentinelTopology extends ReplicatedTopology implements Topology {
  static async start(): Promise<SentinelTopology> {
    return new SentinelTopology(await ReplicaSet.start({ replicas: 2, sentinels: 1 }));
  }

  access(): Promise<Access> {
    return Promise.resolve({ places: [this.set.address], ways: [] });
  }

  /** Kills the master. Replicas have all writes but those of `lastWrites`. Resolves when one has taken its place. */
  async failOverWithout(lastWrites: () => Promise<unknown>): Promise<void> {
    await this.replicated();
    this.master = await this.set.failOverWithout(lastWrites);
  }

  /** Kills the master, waits for the next one, and restarts the old one as its replica. */
  async failOver(): Promise<void> {
    await this.replicated();
    const before = this.master;
    this.master = await this.set.failOver();
    await before.restart();
    await this.follow(before, this.master);
  }

  /** Makes the Sentinel replace the master, which is alive and becomes a replica. */
  async replace(): Promise<void> {
    this.master = await this.set.replace(this.master);
  }

  close(): Promise<void> {
    return this.set.close();
  }
}

/**
 * Replicas behind one address, as behind a load balancer. After the partition, the address leads some processes to the
 * old master and the others to the new one.
 */
export class PartitionTopology extends ReplicatedTopology implements Topology {
  private readonly proxies: RedisProxy[] = [];

  static async start(): Promise<PartitionTopology> {
    return new PartitionTopology(await ReplicaSet.start({ replicas: 2, sentinels: 0 }));
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
}
