import type { Clock } from '../../../core/time/clock.js';
import type { StoreLog } from '../../../core/store/store-health.js';
import type { ExtendRequest } from '../../../core/store/lock-store.js';
import type { ClusterNode } from '../../../redis/cluster/cluster-node.js';
import type { ClusterTopology } from '../../../redis/cluster/cluster-topology.js';
import { redirectionIn } from '../../../redis/redirection.js';
import { acquireFailed } from '../../../redis/redis-errors.js';
import type { ReplicaDemand } from '../../store-context.js';
import type { ScriptNames } from '../token-scripts.js';
import { type Acks, type Confirmed, ReplicaAcks } from './replica-acks.js';

/** The acknowledgements of one node's replicas. */
interface NodeAcks {
  readonly acks: ReplicaAcks;
  readonly close: () => void;
}

/**
 * Waits for replicas in a cluster, at the node that has the lock. The connection to a node is opened when it is first
 * needed and closed when the node leaves.
 */
export class ClusterAcks implements Acks {
  private readonly nodes = new Map<ClusterNode, NodeAcks>();
  private closed = false;

  constructor(
    private readonly topology: ClusterTopology & ScriptNames,
    private readonly demand: ReplicaDemand,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly log: StoreLog,
  ) {}

  open(): void {
    // Each connection is opened when it is needed.
  }

  async confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]> {
    const results = new Map<ExtendRequest, Confirmed>();
    const groups = [...this.topology.byNode(requests, keyOf)].map(async ([node, group]) => {
      const confirmed = await this.confirmAt(node, group);
      await Promise.all(
        group.map(async (request, i) => results.set(request, await this.redirected(request, confirmed[i], node))),
      );
    });
    await Promise.all(groups);
    return requests.map((request) => results.get(request) as Confirmed);
  }

  /** The lock's slot may have moved since the grant. */
  onLockMissing(): void {
    this.topology.refresh();
  }

  reconnect(): void {
    // A connection to a node cannot lead to another server.
  }

  close(): void {
    this.closed = true;
    for (const { close } of this.nodes.values()) close();
  }

  private async confirmAt(node: ClusterNode | undefined, requests: readonly ExtendRequest[]) {
    if (node === undefined || this.closed) return requests.map(() => notConnected());
    return this.acksOf(node)?.confirm(requests) ?? requests.map(() => notConnected());
  }

  /** Follows one redirection. After a second one the slot is being migrated, and the engine tries again later. */
  private async redirected(request: ExtendRequest, confirmed: Confirmed, from: ClusterNode | undefined) {
    const redirection = typeof confirmed === 'string' ? undefined : redirectionIn(confirmed);
    const to = redirection && this.topology.targetOf(keyOf(request), redirection, from);
    if (to === undefined) return confirmed;
    const [again] = await this.confirmAt(to, [request]);
    return again;
  }

  private acksOf(node: ClusterNode): ReplicaAcks | undefined {
    const known = this.nodes.get(node);
    if (known !== undefined) return known.acks;
    const { clock, demand, requestTimeoutMs } = this;
    const connection = node.client.open('replicas');
    if (connection === undefined) return undefined;
    const log: StoreLog = {
      warn: (message) => this.log.warn(`${node.address}: ${message}`),
      info: (message) => this.log.info(`${node.address}: ${message}`),
    };
    const acks = new ReplicaAcks(connection, this.topology, demand, clock, requestTimeoutMs, log, true);
    const close = (): void => {
      stopWatching();
      this.nodes.delete(node);
      acks.close();
    };
    const stopWatching = node.client.watch({ end: close });
    this.nodes.set(node, { acks, close });
    return acks;
  }
}

function keyOf({ keys }: ExtendRequest): string {
  return keys[0];
}

function notConnected(): Confirmed {
  return acquireFailed(new Error('there is no connection to the node that has it'));
}
