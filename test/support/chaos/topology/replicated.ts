import type { ReplicaSet } from '../../redis/replica-set.js';
import type { RedisServer } from '../../redis/index.js';
import { caughtUp } from '../../caught-up.js';
import { keyOf } from '../workload/key.js';
import { leftoversAt } from './leftovers.js';
import type { LockServer } from './topology.js';

/** A master and its replicas. One of them takes its place. */
export abstract class ReplicatedTopology {
  protected constructor(
    protected readonly set: ReplicaSet,
    protected master: RedisServer,
  ) {}

  get version(): string {
    return this.master.version;
  }

  get servers(): readonly LockServer[] {
    return this.set.servers.map((server) => this.lockServerOf(server));
  }

  get victim(): LockServer {
    return this.lockServerOf(this.master);
  }

  leftovers(): Promise<readonly string[]> {
    return leftoversAt(this.victim.admin);
  }

  /** Returns all servers but the current master. */
  protected get replicas(): readonly RedisServer[] {
    return this.set.servers.filter((server) => server !== this.master);
  }

  /** Waits until this number of replicas has all writes of the master. Default: all. */
  protected replicated(replicas = this.replicas.length): Promise<void> {
    return caughtUp(this.set.adminOf(this.master), replicas, keyOf());
  }

  private lockServerOf(server: RedisServer): LockServer {
    return { server, admin: this.set.adminOf(server), clock: undefined };
  }
}
