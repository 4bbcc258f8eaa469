import { ReplicaSet } from '../../redis/replica-set.js';
import { ReplicatedTopology } from './replicated.js';
import type { Access, Topology } from './topology.js';

/** A master, two replicas, and one Sentinel, which decides alone. */
export class SentinelTopology extends ReplicatedTopology implements Topology {
  static async start(): Promise<SentinelTopology> {
    const set = await ReplicaSet.start({ replicas: 2, sentinels: 1 });
    return new SentinelTopology(set, set.servers[0]);
  }

  access(): Promise<Access> {
    return Promise.resolve({ places: [this.set.address], ways: [] });
  }

  /**
   * Kills the master. Replicas have all writes but those of `lastWrites`. Resolves when one has taken its place.
   */
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
    await this.set.adminOf(before).replicaof('127.0.0.1', this.master.port);
  }

  /** Makes the Sentinel replace the master, which is alive and becomes a replica. */
  async replace(): Promise<void> {
    this.master = await this.set.replace(this.master);
  }

  close(): Promise<void> {
    return this.set.close();
  }
}
