import { runOutside } from '../../common/async-context.js';
import type { KeyFilter } from '../../contract/server-connection.js';
import type { Clock, Timer } from '../../clock/clock.js';
import { type ClusterClient, type FurtherConnection, mastersOf, type ServerClient } from '../client-port.js';
import type { ChannelListener } from '../pubsub/channel-source.js';
import { reachedAt } from '../redirection.js';
import { toError } from '../redis-errors.js';
import { type ConnectionListener, describeState, type RedisConnection, REPORT_EVERY_MS } from '../redis-connection.js';
import { ClusterNode, type NodeListener } from './cluster-node.js';

/** The shortest time between two refreshes of the slot table. One refresh serves all requests that were redirected. */
const REFRESH_AFTER_MS = 100;

/** The same while the connection to a master has ended and is not back. Each refresh tries to connect to it again. */
const RECONNECT_AFTER_MS = 500;

/** What the state `connect` of a Cluster means. */
const NO_SLOTS = 'connected, but no node has sent the slots of the cluster yet';

/**
 * The nodes of a cluster, by the slot table of its client. Requests go straight to the node that has their slot: the
 * routing of ioredis costs a third more, and hides which server is silent.
 */
export class ClusterNodes implements NodeListener {
  private readonly nodes = new Map<string, ClusterNode>();
  /** The addresses of nodes whose connection has ended and is not back. */
  private readonly lost = new Set<string>();
  /** The address of each slot's master when the slot table was read last. */
  private masters: readonly (string | undefined)[] = [];
  /** Why the slot table could not be read. Undefined after it was read. */
  lastError: Error | undefined;
  channels: ChannelListener | undefined;
  private listener: ConnectionListener | undefined;
  private outageTimer: Timer | undefined;
  private refreshTimer: Timer | undefined;
  private refreshedAt = -Infinity;
  private isClosed = false;

  constructor(
    private readonly cluster: ClusterClient,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly slotOf: (key: string) => number,
  ) {}

  /** Begins to report the state of the nodes and their channels. Returns a function that stops it. */
  listen(listener: ConnectionListener, channels: ChannelListener): () => void {
    const { cluster } = this;
    this.listener = listener;
    this.channels = channels;
    const stopWatching = cluster.watch({
      refresh: () => this.onRefresh(),
      error: (error) => {
        this.lastError = error;
        listener.onUnreachable(error);
      },
    });
    if (cluster.status !== 'wait') this.startOutageTimer();
    return () => {
      this.isClosed = true;
      stopWatching();
      this.outageTimer?.cancel();
      this.refreshTimer?.cancel();
      this.listener = undefined;
      for (const node of this.nodes.values()) node.close();
      this.channels = undefined;
    };
  }

  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): ClusterNode | undefined {
    const address = this.addressOf(key);
    return address === undefined ? undefined : this.nodeAt(address);
  }

  /** Returns the node to which `sender` has redirected a request. Undefined if it has named none. */
  targetOf(named: string | undefined, sender: ClusterNode | undefined): ClusterNode | undefined {
    if (named === undefined || sender === undefined) return undefined;
    const to = reachedAt(named, sender.address, this.cluster.natMap);
    const known = this.nodeAt(to);
    if (known !== undefined || this.isClosed) return known;
    // A node whose first slot is being migrated has some keys already, and is not in the slot table.
    const client = this.cluster.connectTo(to);
    return client && this.addNode(to, client, client);
  }

  /** Returns the address of the node that has the key. */
  addressOf(key: string): string | undefined {
    return this.cluster.slots[this.slotOf(key)]?.[0];
  }

  /** Returns the known masters of slots, by address. Undefined for one without a connection. */
  masterNodes(): ReadonlyMap<string, ClusterNode | undefined> {
    return new Map(Array.from(mastersOf(this.cluster), (address) => [address, this.nodeAt(address)]));
  }

  connections(): readonly RedisConnection[] {
    return Array.from(this.nodes.values(), ({ connection }) => connection);
  }

  /** Refreshes the slot table in the background, some time after the last refresh. */
  refresh(): void {
    if (this.isClosed || this.refreshTimer !== undefined) return;
    const pauseMs = this.lost.size > 0 ? RECONNECT_AFTER_MS : REFRESH_AFTER_MS;
    const delayMs = Math.max(0, this.refreshedAt + pauseMs - this.clock.now());
    runOutside(() => {
      this.refreshTimer = this.clock.schedule(delayMs, () => this.refreshNow(), true);
    });
  }

  onNodeDisconnected({ address }: ClusterNode): void {
    this.lost.add(address);
    this.refresh();
    this.listener?.onDisconnected(this.keysAt(address));
  }

  onNodeUnreachable({ address }: ClusterNode, error: Error): void {
    this.listener?.onUnreachable(error, address);
  }

  onNodeReachable({ address }: ClusterNode): void {
    this.listener?.onReachable(address);
    if (this.lost.delete(address)) this.listener?.onReconnected(this.keysAt(address));
  }

  onChannelsRemoved(node: ClusterNode): void {
    this.refresh();
    this.channels?.onChannelsRemoved(node.source);
  }

  onNodeEnded(node: ClusterNode): void {
    if (this.nodes.get(node.address) === node) this.nodes.delete(node.address);
    this.refresh();
  }

  private keysAt(address: string): KeyFilter {
    return (key) => this.addressOf(key) === address;
  }

  private nodeAt(address: string): ClusterNode | undefined {
    const known = this.nodes.get(address);
    if (known !== undefined || this.isClosed) return known;
    const client = this.cluster.nodeAt(address);
    return client && this.addNode(address, client);
  }

  private addNode(address: string, client: ServerClient, own?: FurtherConnection): ClusterNode {
    const { clock, requestTimeoutMs } = this;
    const deps = { clock, requestTimeoutMs, listener: this };
    const node = runOutside(() => new ClusterNode(address, client, deps, own));
    this.nodes.set(address, node);
    return node;
  }

  private refreshNow(): void {
    this.refreshTimer = undefined;
    this.refreshedAt = this.clock.now();
    const { status } = this.cluster;
    if (status === 'wait') this.cluster.connect();
    // In other states the client reads the table itself. In `connect` the node that it reads from may hang.
    if (status !== 'ready' && status !== 'connect') return this.startOutageTimer();
    this.cluster.refresh().catch((error: unknown) => {
      this.listener?.onUnreachable(toError(error));
      if (this.lost.size > 0) this.refresh();
    });
  }

  private onRefresh(): void {
    this.lastError = undefined;
    this.channels?.onSlotsChanged();
    this.reportNewMasters();
    this.connectToLost();
  }

  /** Reports the slots that have another master, because a failover may have lost their locks. */
  private reportNewMasters(): void {
    const { masters, cluster } = this;
    this.masters = Array.from(cluster.slots, (addresses) => addresses?.[0]);
    const moved = new Set([...masters.keys()].filter((slot) => masters[slot] !== this.masters[slot]));
    if (moved.size > 0) this.listener?.onReconnected((key) => moved.has(this.slotOf(key)));
  }

  /** Connects to lost nodes, and refreshes until all are back: only that gives ioredis a client for such a node. */
  private connectToLost(): void {
    const masters = mastersOf(this.cluster);
    for (const address of this.lost) {
      // A node without slots has no locks.
      if (masters.has(address)) this.nodeAt(address);
      else this.lost.delete(address);
    }
    if (this.lost.size > 0) this.refresh();
  }

  private startOutageTimer(delayMs = this.requestTimeoutMs): void {
    const report = (): void => {
      this.outageTimer = undefined;
      const { status } = this.cluster;
      if (status === 'ready') return;
      const why = status === 'connect' ? NO_SLOTS : describeState(status, false);
      this.listener?.onUnreachable(this.lastError ?? new Error(why));
      this.startOutageTimer(REPORT_EVERY_MS);
    };
    this.outageTimer ??= this.clock.schedule(delayMs, report, true);
  }
}
