import { runOutside } from '../../core/context/async-context.js';
import type { Clock, Timer } from '../../core/time/clock.js';
import type { KeyFilter, StoreListener } from '../../core/store/lock-store.js';
import { PendingRequests } from '../deadline-requests.js';
import type { ChannelListener } from '../pubsub/channel-source.js';
import { describeClusterState, REPORT_EVERY_MS } from '../connection-state.js';
import { clusterFailure } from '../redis-errors.js';
import type { RedisConnection } from '../redis-connection.js';
import type { RedisNode } from '../topology.js';
import type { ClusterNodeClient, RedisCluster } from './cluster-client.js';
import { SLOTS } from './hash-slot.js';
import { ClusterNode, type NodeListener } from './cluster-node.js';
import { formatAddress, type NodeAddress, type Redirection, targetAddress } from '../redirection.js';

type ConnectionListener = Pick<
  StoreListener,
  'onDisconnected' | 'onReconnected' | 'onUnreachable' | 'onReachable' | 'onSlowReply'
>;

/** The shortest time between two refreshes of the slot table. One refresh serves all requests that were redirected. */
const REFRESH_AFTER_MS = 100;

/** The first and the longest pause before a lost node is connected to again. */
const RECONNECT_AFTER_MS = 100;
const RECONNECT_AFTER_AT_MOST_MS = 1_000;

/**
 * The node of each slot, as far as is known: from ioredis' slot table and from redirections since. ioredis' own routing
 * is not used, because a request depends on what is known of its node, such as its clock.
 */
export class SlotMap implements NodeListener {
  private readonly nodes = new Map<string, ClusterNode>();
  /** Clients of nodes that ioredis did not know, made here. */
  private readonly ownClients = new Set<ClusterNodeClient>();
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
  private listener: ConnectionListener | undefined;
  channels: ChannelListener | undefined;
  private outageTimer: Timer | undefined;
  private refreshTimer: Timer | undefined;
  private reconnectTimer: Timer | undefined;
  private stopped = false;

  constructor(
    private readonly cluster: RedisCluster,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly slotOf: (key: string) => number,
  ) {}

  /** Begins to report the state of the nodes and their channels. Returns a function that stops it. */
  listen(listener: ConnectionListener, channels: ChannelListener): () => void {
    const { cluster } = this;
    this.listener = listener;
    this.channels = channels;
    const onRefresh = (): void => this.onRefresh();
    const onError = (error: Error): void => listener.onUnreachable(clusterFailure(error));
    cluster.on('refresh', onRefresh);
    // ioredis prints errors only if the client has no error listener. A listener of ours would silence them.
    const listensToErrors = cluster.listenerCount('error') > 0;
    if (listensToErrors) cluster.on('error', onError);
    if (cluster.status !== 'wait') this.startOutageTimer();
    return () => {
      this.stopped = true;
      cluster.off('refresh', onRefresh);
      if (listensToErrors) cluster.off('error', onError);
      this.outageTimer?.cancel();
      this.refreshTimer?.cancel();
      this.reconnectTimer?.cancel();
      this.listener = undefined;
      for (const client of this.ownClients) client.disconnect();
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
    const addresses = [...this.cluster.slots.map((known) => known?.[0]), ...this.movedTo.values()];
    const known = new Set(addresses.filter((address) => address !== undefined));
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
  targetOf(slot: number, redirection: Redirection, from: ClusterNode | undefined): ClusterNode | undefined {
    const { kind } = redirection;
    if (kind === 'again') return undefined;
    if (kind === 'lost') return void this.refresh();
    const target = targetAddress(redirection, from?.client.options.host, this.cluster.options?.natMap);
    const address = formatAddress(target);
    if (kind === 'ask') return this.nodeAt(address) ?? this.connectTo(address, target, from);
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
    if (typeof client.options.retryStrategy !== 'function') return;
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

  onSlowReply(durationMs: number, sentAt: number): void {
    this.listener?.onSlowReply?.(durationMs, sentAt);
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
    this.ownClients.delete(node.client);
    this.refresh();
  }

  private nodeAt(address: string): ClusterNode | undefined {
    const known = this.nodes.get(address);
    if (known !== undefined || this.stopped) return known;
    const client = this.cluster.nodes('all').find(({ options: { host, port } }) => `${host}:${port}` === address);
    return client === undefined || client.status === 'end' ? undefined : this.addNode(address, client);
  }

  // ioredis does not know a node whose first slot is being migrated, but some keys are already there.
  private connectTo(address: string, target: NodeAddress, from: ClusterNode | undefined): ClusterNode | undefined {
    if (from === undefined || this.stopped) return undefined;
    const client = from.client.duplicate({ ...target, retryStrategy: null });
    client.on('error', () => undefined);
    this.ownClients.add(client);
    return this.addNode(address, client);
  }

  private addNode(address: string, client: ClusterNodeClient): ClusterNode {
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
    if (status === 'wait') this.cluster.connect().catch(() => undefined);
    // In other states ioredis reads the table itself. In `connect` the node that it reads from may hang.
    if (status !== 'ready' && status !== 'connect') return this.startOutageTimer();
    this.cluster.refreshSlotsCache((error) => {
      if (error) this.listener?.onUnreachable(clusterFailure(error));
    });
  }

  private onRefresh(): void {
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

  /** Connects to lost nodes, after longer and longer pauses. ioredis would do so with the next request. */
  private reconnectLater(delayMs: number): void {
    if (this.stopped || this.reconnectTimer !== undefined) return;
    const reconnect = (): void => {
      this.reconnectTimer = undefined;
      const masters = new Set(this.cluster.slots.map((addresses) => addresses?.[0]));
      for (const address of this.lost) {
        // A node without slots has no locks.
        if (masters.has(address)) this.nodeAt(address);
        else this.lost.delete(address);
      }
      if (this.lost.size === 0) return;
      // Only a refresh makes ioredis create a client for a node whose connection has ended.
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
      this.listener?.onUnreachable(new Error(describeClusterState(status)));
      this.startOutageTimer(REPORT_EVERY_MS);
    };
    this.outageTimer ??= this.clock.schedule(delayMs, report, true);
  }
}
