import { type ClusterMember, DETECTS_FAILURES_MS, RedisCluster } from '../../redis/index.js';
import { eventually } from '../../redis-locks.js';
import { keyOf } from '../workload/key.js';
import { caughtUp } from '../../caught-up.js';
import { leftoversAt } from './leftovers.js';
import type { Access, LockServer, Topology } from './topology.js';

const TAKEN_OVER_MS = 30_000;

/** Three masters with a replica each. One of them keeps the lock. */
export class ClusterTopology implements Topology {
  private constructor(
    private readonly cluster: RedisCluster,
    private master: ClusterMember,
  ) {}

  static async start(): Promise<ClusterTopology> {
    const cluster = await RedisCluster.start({ nodeTimeoutMs: DETECTS_FAILURES_MS });
    return new ClusterTopology(cluster, await cluster.ownerOf(keyOf()));
  }

  get version(): string {
    return this.master.server.version;
  }

  get servers(): readonly LockServer[] {
    return this.cluster.members.map(lockServerOf);
  }

  get victim(): LockServer {
    return lockServerOf(this.master);
  }

  access(): Promise<Access> {
    return Promise.resolve({ places: [{ nodes: this.cluster.nodes }], ways: [] });
  }

  /** Kills the master after its replica has all data. */
  async failOver(): Promise<void> {
    await caughtUp(this.master.admin, 1, keyOf());
    await this.master.server.kill();
    await this.takenOver(this.cluster.replicaOf(this.master));
  }

  /** Moves the lock's slot to another master. During `halfway` its keys have moved, but the slot has not. */
  async moveSlot(halfway: () => Promise<unknown>): Promise<void> {
    const next = await this.cluster.otherThan(keyOf());
    const { moveKeys, finish } = await this.cluster.migration(keyOf(), next);
    await moveKeys();
    await halfway();
    await finish();
    this.master = next;
  }

  leftovers(): Promise<readonly string[]> {
    return leftoversAt(this.master.admin);
  }

  async close(): Promise<void> {
    for (const { server } of this.cluster.members) if (server.pid !== undefined) server.resume();
    await this.cluster.close();
  }

  private async takenOver(next: ClusterMember): Promise<void> {
    const byAll = async (): Promise<boolean> => (await this.cluster.ownerOf(keyOf()).catch(() => undefined)) === next;
    await eventually('the replica has taken over', byAll, TAKEN_OVER_MS);
    this.master = next;
  }
}

function lockServerOf({ server, admin }: ClusterMember): LockServer {
  return { server, admin, clock: undefined };
}
