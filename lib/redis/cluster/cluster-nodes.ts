import { runOutside } from '../../core/context/async-context.js';
import type { Clock, Timer } from '../../core/time/clock.js';
import type { KeyFilter } from '../../core/store/lock-store.js';
import { PendingRequests } from '../deadline-requests.js';
import type { ChannelListener } from '../pubsub/channel-source.js';
import { type ClusterClient, type FurtherConnection, mastersOf, type ServerClient } from '../client-port.js';
import { describeClusterState, REPORT_EVERY_MS } from '../connection-state.js';
import { toError } from '../redis-errors.js';
import type { ConnectionListener, RedisConnection } from '../redis-connection.js';
import type { RedisNode } from '../topology.js';
import { SLOTS } from './hash-slot.js';
import { ClusterNode, type NodeListener } from './cluster-node.js';
import { type Redirection, targetAddress } from '../redirection.js';

/** The shortest time between two refreshes of the slot table. One refresh serves all requests that were redirected. */
const REFRESH_AFTER_MS = 100;

/** The first and the longest pause before a lost node is connected to again. */
const RECONNECT_AFTER_MS = 100;
const RECONNECT_AFTER_AT_MOST_MS = 1_000;

/**
 * The node of each slot, as far as is known: from the client's slot table and from redirections since. The client's own
 * routing is not used, because a request depends on what is known of its node, such as its clock.
 */
export class SlotMap implements NodeListener {
  private readonly nodes = new Map<string, ClusterNode>();
  /** Connections to nodes that were not in the slot table, by address. */
  private readonly ownConnections = new Map<string, FurtherConnection>();
  /** The addresses that nodes have named by MOVED since the slot table was read. */
  private readonly movedTo = new Map<number, string>();
  /** The addresses of nodes whose connection has ended and is not back. */
  private readonly lost = new Set<string>();
  /** The address of each slot's master when the slot table was read last. */
  private masters: readonly (string | undefined)[] = [];
  /** Acquire requests that were not sent yet, of all nodes. */
  readonly pending = new PendingRequests();
  /** @internal Public for tests. */
  mayRefreshAt = -Infinity;
  /** Why the slot table could not be read. Undefined after it was read. */
  lastError: Error | undefined;
  private listener: ConnectionListener | undefined;
  channels: ChannelListener | undefined;
  private outageTimer: Timer | undefined;
  private refreshTimer: Timer | undefined;
  private reconnectTimer: Timer | undefined;
  private stopped = false;

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
      this.stopped = true;
      stopWatching();
      this.outageTimer?.cancel();
      this.refreshTimer?.cancel();
      this.reconnectTimer?.cancel();
      this.listener = undefined;
      for (const connection of this.ownConnections.values()) connection.disconnect();
      for (const node of this.nodes.values()) node.close();
      this.channels = undefined;
    };
  }

  /** Returns the node that has the slot. Undefined while there is no connection to it. */
  nodeOf(slot: number): ClusterNode | undefined {
    const address = this.addressOf(slot);
    return address === undefined ? undefined : this.nodeAt(address);
  }

  /** Returns the address of the node that has the slot. */
  addressOf(slot: number): string | undefined {
    return this.movedTo.get(slot) ?? this.cluster.slots[slot]?.[0];
  }

  /** Returns the known masters of slots, by address. Undefined for one without a connection. */
  masterNodes(): ReadonlyMap<string, ClusterNode | undefined> {
    const known = new Set([...mastersOf(this.cluster), ...this.movedTo.values()]);
    return new Map([...known].map((address) => [address, this.nodeAt(address)]));
  }

  /** The number of slots without a known master. */
  get orphans(): number {
    let known = 0;
    for (let slot = 0; slot < SLOTS; slot += 1) if (this.addressOf(slot) !== undefined) known += 1;
    return SLOTS - known;
  }

  /** Returns the node to which a redirected request is sent at once, if it is known. */
  nodeAfter(slot: number, redirection: Redirection, from: ClusterNode | undefined): RedisNode | undefined {
    const node = this.targetOf(slot, redirection, from);
    return redirection.kind === 'ask' ? node?.withAsking : node;
  }

  /** Returns the node that a redirection names, and remembers a MOVED. Undefined if it names none that is known. */
  private targetOf(slot: number, redirection: Redirection, from: ClusterNode | undefined): ClusterNode | undefined {
    const { kind } = redirection;
    if (kind === 'again') return undefined;
    if (kind === 'lost') return void this.refresh();
    const address = targetAddress(redirection, from?.address, this.cluster.natMap);
    if (kind === 'ask') return this.nodeAt(address) ?? this.connectTo(address);
    this.movedTo.set(slot, address);
    this.refresh();
    return this.nodeAt(address);
  }

  /** Refreshes the slot table in the background, 100 ms after the last refresh at the earliest. */
  refresh(): void {
    if (this.stopped || this.refreshTimer !== undefined) return;
    const delayMs = Math.max(0, this.mayRefreshAt - this.clock.now());
    runOutside(() => {
      this.refreshTimer = this.clock.schedule(delayMs, () => this.refreshNow(), true);
    });
  }

  onNodeDisconnected({ address, client }: ClusterNode): void {
    this.lost.add(address);
    this.reconnectLater(RECONNECT_AFTER_MS);
    // A client that does not reconnect by itself rejects its commands, and they are sent to another node.
    if (!client.reconnects) return;
    const concerns: KeyFilter = (key) => this.addressOf(this.slotOf(key)) === address;
    this.listener?.onDisconnected(concerns);
  }

  connections(): readonly RedisConnection[] {
    return Array.from(this.nodes.values(), ({ connection }) => connection);
  }

  onNodeUnreachable({ address }: ClusterNode, error: Error): void {
    this.listener?.onUnreachable(error, address);
  }

  onNodeReachable({ address }: ClusterNode): void {
    this.listener?.onReachable(address);
    if (this.lost.size > 0 && this.lost.delete(address)) {
      this.listener?.onReconnected((key) => this.addressOf(this.slotOf(key)) === address);
    }
  }

  onNodeSilent(): void {
    this.refresh();
  }

  onChannelsRemoved(node: ClusterNode): void {
    this.refresh();
    this.channels?.onChannelsRemoved(node.source);
  }

  onNodeEnded(node: ClusterNode): void {
    if (this.nodes.get(node.address) === node) this.nodes.delete(node.address);
    this.ownConnections.delete(node.address);
    this.refresh();
  }

  private nodeAt(address: string): ClusterNode | undefined {
    const known = this.nodes.get(address);
    if (known !== undefined || this.stopped) return known;
    const client = this.cluster.nodeAt(address);
    return client && this.addNode(address, client);
  }

  // A node whose first slot is being migrated has some keys already, and is not in the slot table.
  private connectTo(address: string): ClusterNode | undefined {
    const client = this.stopped ? undefined : this.cluster.connectTo(address);
    if (client === undefined) return undefined;
    this.ownConnections.set(address, client);
    return this.addNode(address, client);
  }

  private addNode(address: string, client: ServerClient): ClusterNode {
    const { clock, requestTimeoutMs, pending } = this;
    const node = runOutside(
      () => new ClusterNode(address, client, { clock, requestTimeoutMs, pending, listener: this }),
    );
    this.nodes.set(address, node);
    return node;
  }

  private refreshNow(): void {
    this.refreshTimer = undefined;
    this.mayRefreshAt = this.clock.now() + REFRESH_AFTER_MS;
    const { status } = this.cluster;
    if (status === 'wait') this.cluster.connect();
    // In other states the client reads the table itself. In `connect` the node that it reads from may hang.
    if (status !== 'ready' && status !== 'connect') return this.startOutageTimer();
    this.cluster.refresh().catch((error: unknown) => this.listener?.onUnreachable(toError(error)));
  }

  private onRefresh(): void {
    this.lastError = undefined;
    this.movedTo.clear();
    this.channels?.onSlotsChanged();
    this.reportNewMasters();
  }

  /** Reports the slots that have another master, because a failover may have lost their locks. */
  private reportNewMasters(): void {
    const { masters, cluster } = this;
    this.masters = Array.from(cluster.slots, (addresses) => addresses?.[0]);
    const moved = new Set([...masters.keys()].filter((slot) => masters[slot] !== this.masters[slot]));
    if (moved.size > 0) this.listener?.onReconnected((key) => moved.has(this.slotOf(key)));
  }

  /** Connects to lost nodes, after longer and longer pauses. */
  private reconnectLater(delayMs: number): void {
    if (this.stopped || this.reconnectTimer !== undefined) return;
    const reconnect = (): void => {
      this.reconnectTimer = undefined;
      const masters = mastersOf(this.cluster);
      for (const address of this.lost) {
        // A node without slots has no locks.
        if (masters.has(address)) this.nodeAt(address);
        else this.lost.delete(address);
      }
      if (this.lost.size === 0) return;
      // Only a refresh makes a client for a node whose connection has ended.
      this.refresh();
      this.reconnectLater(Math.min(delayMs * 2, RECONNECT_AFTER_AT_MOST_MS));
    };
    this.reconnectTimer = runOutside(() => this.clock.schedule(delayMs, reconnect, true));
  }

  private startOutageTimer(delayMs = this.requestTimeoutMs): void {
    const report = (): void => {
      this.outageTimer = undefined;
      const { status } = this.cluster;
      if (status === 'ready') return;
      this.listener?.onUnreachable(this.lastError ?? new Error(describeClusterState(status)));
      this.startOutageTimer(REPORT_EVERY_MS);
    };
    this.outageTimer ??= this.clock.schedule(delayMs, report, true);
  }
}
