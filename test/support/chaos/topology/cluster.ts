import { setTimeout as sleep } from 'node:timers/promises';
import { caughtUp } from '../../caught-up.js';
import { type ClusterMember, DETECTS_FAILURES_MS, RedisCluster } from '../../redis/index.js';
import { eventually } from '../../redis-locks.js';
import { KEY } from '../workload/key.js';
import type { Access, LockServer, Topology } from './topology.js';

const TAKEN_OVER_MS = 30_000;
const REDIRECTED_MS = 10_000;

/** Three masters with a replica each. One of them keeps the lock. */
export class ClusterTopology implements Topology {
  private constructor(
    private readonly cluster: RedisCluster,
    public victim: ClusterMember,
  ) {}

  static async start(): Promise<ClusterTopology> {
    const cluster = await RedisCluster.start({ nodeTimeoutMs: DETECTS_FAILURES_MS });
    return new ClusterTopology(cluster, await cluster.ownerOf(KEY));
  }

  get servers(): readonly LockServer[] {
    return this.cluster.members;
  }

  access(): Promise<Access> {
    return Promise.resolve({ places: [{ nodes: this.cluster.nodes }], ways: [] });
  }

  /** Kills the master after its replica has all data. */
  async failOver(): Promise<void> {
    await caughtUp(this.victim.admin, 1, KEY);
    await this.victim.server.kill();
    const next = this.cluster.replicaOf(this.victim);
    const byAll = async (): Promise<boolean> => (await this.cluster.ownerOf(KEY).catch(() => undefined)) === next;
    await eventually('the replica has taken over', byAll, TAKEN_OVER_MS);
    this.victim = next;
  }

  /**
   * Moves the lock's slot to another master: its keys, and the slot a second later. Waits until the nodes have replied
   * ASK and TRYAGAIN before that, and MOVED after it.
   */
  async moveSlot(): Promise<void> {
    const next = await this.cluster.otherThan(KEY);
    const { moveKeys, finish } = await this.cluster.migration(KEY, next);
    await Promise.all(this.cluster.masters.map(({ admin }) => admin.config('RESETSTAT')));
    await moveKeys();
    await sleep(1_000);
    await this.redirected('ASK');
    await this.redirected('TRYAGAIN');
    await finish();
    this.victim = next;
    await this.redirected('MOVED');
  }

  async close(): Promise<void> {
    for (const { server } of this.cluster.members) if (server.pid !== undefined) server.resume();
    await this.cluster.close();
  }

  /** Waits until a node has replied with this error, by the counts of the servers. */
  private async redirected(by: 'ASK' | 'TRYAGAIN' | 'MOVED'): Promise<void> {
    const counted = async (): Promise<boolean> => {
      const stats = await Promise.all(this.cluster.masters.map(({ admin }) => admin.info('errorstats')));
      return stats.some((each) => each.includes(`errorstat_${by}:`));
    };
    await eventually(`a node of the cluster replies ${by} while a slot moves`, counted, REDIRECTED_MS);
  }
}
