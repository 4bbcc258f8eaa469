import { ReplicaSet } from '../../support/redis/replica-set.js';
import type { RedisServer } from '../../support/redis/index.js';
import { caughtUp } from '../../support/caught-up.js';
import { keyOf } from '../workload/key.js';
import { leftoversAt } from './leftovers.js';
import type { Access, LockServer, Succession, Topology } from './topology.js';

/** A master, two replicas, and a Sentinel that has nobody to agree with. */
export class SentinelTopology implements Topology, Succession {
  private constructor(
    private readonly set: ReplicaSet,
    private master: RedisServer,
  ) {}

  static async start(): Promise<SentinelTopology> {
    const set = await ReplicaSet.start({ replicas: 2, sentinels: 1 });
    return new SentinelTopology(set, set.servers[0]);
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

  access(): Promise<Access> {
    return Promise.resolve({ places: [this.set.address], ways: [] });
  }

  async failOverWithout(lastWrites: () => Promise<unknown>): Promise<void> {
    await caughtUp(this.set.adminOf(this.master), 2, keyOf());
    this.master = await this.set.failOverWithout(lastWrites);
  }

  leftovers(): Promise<readonly string[]> {
    return leftoversAt(this.victim.admin);
  }

  close(): Promise<void> {
    return this.set.close();
  }

  private seen(server: RedisServer): LockServer {
    return { server, admin: this.set.adminOf(server), clock: undefined };
  }
}
