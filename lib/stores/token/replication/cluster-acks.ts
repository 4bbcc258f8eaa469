import type { Clock } from '../../../core/time/clock.js';
import type { ExtendRequest } from '../../../core/store/lock-store.js';
import { redirectionIn, unavailableBecause } from '../../../redis/redis-errors.js';
import { AskingConnection, type NodeConnection } from '../../../redis/cluster/asking-connection.js';
import { type ClusterNode, NODE_COPY } from '../../../redis/cluster/cluster-node.js';
import type { ClusterTopology } from '../../../redis/cluster/cluster-topology.js';
import { type Acks, type Confirmed, ReplicaAcks } from './replica-acks.js';
import type { ReplicaDemand } from './replica-options.js';
import type { KeyPlaces } from '../token-scripts.js';

/** The acknowledgements of one node's replicas. */
interface NodeAcks {
  readonly acks: ReplicaAcks;
  readonly close: () => void;
}

const LINK = {
  ...NODE_COPY,
  connectionName: 'nestjs-redis-lock:replicas',
  readOnly: false,
  autoResendUnfulfilledCommands: false,
  commandTimeout: undefined,
};

/**
 * Makes sure that replicas know of locks in a cluster: at the node that has the lock, over a connection to it that is opened when it
 * is needed, and closed when the node leaves.
 */
export class ClusterAcks implements Acks {
  private readonly nodes = new Map<ClusterNode, NodeAcks>();
  private closed = false;

  constructor(
    private readonly servers: ClusterTopology & KeyPlaces,
    private readonly demand: ReplicaDemand,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly warn: (message: string) => void,
  ) {}

  open(): void {
    // Each when it is needed.
  }

  async confirm(requests: readonly ExtendRequest[]): Promise<readonly Confirmed[]> {
    const answers = new Map<ExtendRequest, Confirmed>();
    const groups = [...this.servers.byNode(requests, keyOf)].map(async ([node, group]) => {
      const confirmed = await this.confirmAt(node, group);
      const followed = group.map(async (request, i) =>
        answers.set(request, await this.followed(request, confirmed[i], node)),
      );
      await Promise.all(followed);
    });
    await Promise.all(groups);
    return requests.map((request) => answers.get(request) as Confirmed);
  }

  /** The lock may have moved on since it was granted. */
  misled(): void {
    this.servers.refresh();
  }

  reconnect(): void {
    // A node's connection leads to that node, or nowhere.
  }

  close(): void {
    this.closed = true;
    for (const { close } of this.nodes.values()) close();
  }

  private async confirmAt(node: ClusterNode | undefined, requests: readonly ExtendRequest[]) {
    if (node === undefined || this.closed) return requests.map(() => unconnected());
    return this.acksOf(node).confirm(requests);
  }

  /** What a lock was answered at the node to which it was sent on, once: after that its slot is on its way, and somebody tries again. */
  private async followed(request: ExtendRequest, confirmed: Confirmed, from: ClusterNode | undefined) {
    const redirection = typeof confirmed === 'string' ? undefined : redirectionIn(confirmed);
    const to = redirection && this.servers.meant(keyOf(request), redirection, from);
    if (to === undefined) return confirmed;
    const [again] = await this.confirmAt(to, [request]);
    return again;
  }

  private acksOf(node: ClusterNode): ReplicaAcks {
    const known = this.nodes.get(node);
    if (known !== undefined) return known.acks;
    const { clock, demand, requestTimeoutMs } = this;
    const link = new AskingConnection(node.client.duplicate(LINK) as object as NodeConnection);
    const acks = new ReplicaAcks(link, this.servers, demand, clock, requestTimeoutMs, (message) =>
      this.warn(`${node.address}: ${message}`),
    );
    const close = (): void => {
      node.client.off('end', close);
      this.nodes.delete(node);
      acks.close();
    };
    node.client.on('end', close);
    this.nodes.set(node, { acks, close });
    return acks;
  }
}

function keyOf({ keys }: ExtendRequest): string {
  return keys[0];
}

function unconnected(): Confirmed {
  return unavailableBecause(new Error('there is no connection to the node that has it'), 'a lock');
}
