import { runOutside } from '../../core/async-context.js';
import type { Clock, Timer } from '../../core/time/clock.js';
import type { KeyFilter, StoreListener } from '../../core/store/lock-store.js';
import type { SubscriberListener } from '../pubsub/verified-subscriber.js';
import type { ClusterNodeClient, RedisCluster } from './cluster-client.js';
import { type Redirection, toError } from '../redis-errors.js';
import type { RedisNode } from '../topology.js';
import { PendingRequests } from '../pending-requests.js';
import { ClusterNode, type NodeListener } from './cluster-node.js';
import { addressOf, type NodeAddress, placeOf } from './node-address.js';

/** Who listens on the nodes' sharded channels. */
export interface ShardListener {
  linked(node: ClusterNode): void;
  lost(node: ClusterNode): void;
  message(node: ClusterNode, channel: string, message: string): void;
  refused(why: string): void;
  /** A slot has left the node. */
  moved(node: ClusterNode): void;
  /** Slots may be elsewhere than before. */
  rerouted(): void;
}

type ConnectionListener = Pick<StoreListener, 'onDisconnected' | 'onUnreachable' | 'onReachable'>;

/** Everybody who is refused wants to know more: one look at the cluster serves all of them. */
const REFRESH_AFTER_MS = 100;

/**
 * Which node has which slot, as far as is known: by ioredis' table, and by what nodes have answered since. ioredis' own routing is
 * not used, because what is sent to a node depends on what is known of it: its clock above all.
 */
export class SlotMap implements NodeListener {
  private readonly nodes = new Map<string, ClusterNode>();
  /** Connections of our own, to nodes that ioredis did not know. */
  private readonly own = new Set<ClusterNodeClient>();
  /** What nodes have answered since the table was read. */
  private readonly redirected = new Map<number, string>();
  private readonly pending = new PendingRequests();
  private listener: ConnectionListener | undefined;
  private shards: ShardListener | undefined;
  private check: Timer | undefined;
  private look: Timer | undefined;
  private mayRefreshAt = -Infinity;
  private stopped = false;

  constructor(
    private readonly cluster: RedisCluster,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    private readonly slotOf: (key: string) => number,
  ) {}

  listen(listener: ConnectionListener, shards: ShardListener): () => void {
    const { cluster } = this;
    this.listener = listener;
    this.shards = shards;
    const onRefresh = (): void => this.refreshed();
    const onError = (error: Error): void => listener.onUnreachable(error);
    cluster.on('refresh', onRefresh);
    // A client without an error listener reports its errors on the console: a listener of ours would silence them.
    const hearsErrors = cluster.listenerCount('error') > 0;
    if (hearsErrors) cluster.on('error', onError);
    if (cluster.status !== 'wait') this.checkLater();
    return () => {
      this.stopped = true;
      cluster.off('refresh', onRefresh);
      if (hearsErrors) cluster.off('error', onError);
      this.check?.cancel();
      this.look?.cancel();
      this.listener = undefined;
      for (const client of this.own) client.disconnect();
      for (const node of this.nodes.values()) node.close();
      this.shards = undefined;
    };
  }

  /** The node that has the slot; undefined while there is no connection to it. */
  nodeOf(slot: number): ClusterNode | undefined {
    const address = this.addressOf(slot);
    return address === undefined ? undefined : this.nodeAt(address);
  }

  /** Where that node is. */
  addressOf(slot: number): string | undefined {
    return this.redirected.get(slot) ?? this.cluster.slots[slot]?.[0];
  }

  /** Whom to ask next at once, if that is known, after this answer of a node to a request for the slot. */
  follow(slot: number, redirection: Redirection, from: ClusterNode | undefined): RedisNode | undefined {
    const node = this.meant(slot, redirection, from);
    return redirection.kind === 'ask' ? node?.asking : node;
  }

  /** The node that this answer names, if it names one. */
  meant(slot: number, redirection: Redirection, from: ClusterNode | undefined): ClusterNode | undefined {
    const { kind } = redirection;
    if (kind === 'again') return undefined;
    if (kind === 'lost') return void this.refresh();
    const place = placeOf(redirection, from, this.cluster);
    const to = addressOf(place);
    if (kind === 'ask') return this.nodeAt(to) ?? this.newcomerAt(to, place, from);
    this.redirected.set(slot, to);
    this.refresh();
    return this.nodeAt(to);
  }

  /** Looks, in the background, where the slots are; a little later, if it has just done so: they may have moved since. */
  refresh(): void {
    if (this.stopped || this.look !== undefined) return;
    const delayMs = Math.max(0, this.mayRefreshAt - this.clock.now());
    runOutside(() => {
      this.look = this.clock.schedule(delayMs, () => this.refreshNow(), true);
    });
  }

  /** Whether the owner's ask was called off by this, before it was sent. */
  cancel(owner: string): boolean {
    return this.pending.cancel(owner);
  }

  /** Unless it comes back by itself, ioredis answers all that was asked over it, and it is asked again elsewhere. */
  disconnected({ address, client }: ClusterNode): void {
    if (typeof client.options.retryStrategy !== 'function') return;
    const concerns: KeyFilter = (key) => this.addressOf(this.slotOf(key)) === address;
    this.listener?.onDisconnected(concerns);
  }

  unreachable({ address }: ClusterNode, error: Error): void {
    this.listener?.onUnreachable(error, address);
  }

  reachable({ address }: ClusterNode): void {
    this.listener?.onReachable(address);
  }

  silent(): void {
    this.refresh();
  }

  moved(node: ClusterNode): void {
    this.refresh();
    this.shards?.moved(node);
  }

  ended(node: ClusterNode): void {
    if (this.nodes.get(node.address) === node) this.nodes.delete(node.address);
    this.own.delete(node.client);
    this.refresh();
  }

  subscriberOf(node: ClusterNode): SubscriberListener {
    return {
      linked: () => this.shards?.linked(node),
      lost: () => this.shards?.lost(node),
      message: (channel, message) => this.shards?.message(node, channel, message),
      refused: (why) => this.shards?.refused(why),
    };
  }

  private nodeAt(address: string): ClusterNode | undefined {
    const known = this.nodes.get(address);
    if (known !== undefined || this.stopped) return known;
    const client = this.cluster.nodes('all').find(({ options: { host, port } }) => `${host}:${port}` === address);
    return client === undefined || client.status === 'end' ? undefined : this.known(address, client);
  }

  /** While the first slot of a node is on its way to it, ioredis does not know of it, and half of the keys are there. */
  private newcomerAt(address: string, place: NodeAddress, from: ClusterNode | undefined): ClusterNode | undefined {
    if (from === undefined || this.stopped) return undefined;
    const client = from.client.duplicate({ ...place, retryStrategy: null });
    client.on('error', () => undefined);
    this.own.add(client);
    return this.known(address, client);
  }

  private known(address: string, client: ClusterNodeClient): ClusterNode {
    const { clock, requestTimeoutMs, pending } = this;
    const node = runOutside(
      () => new ClusterNode(address, client, { clock, requestTimeoutMs, pending, listener: this }),
    );
    this.nodes.set(address, node);
    return node;
  }

  private refreshNow(): void {
    this.look = undefined;
    this.mayRefreshAt = this.clock.now() + REFRESH_AFTER_MS;
    const { status } = this.cluster;
    if (status === 'wait') this.cluster.connect().catch(() => undefined);
    // Otherwise ioredis looks by itself, as soon as it has found a node. `connect`: one may hang that was asked for the rest.
    if (status !== 'ready' && status !== 'connect') return this.checkLater();
    this.cluster.refreshSlotsCache((error) => {
      if (error) this.listener?.onUnreachable(toError(error));
    });
  }

  private refreshed(): void {
    this.redirected.clear();
    this.shards?.rerouted();
  }

  private checkLater(): void {
    const check = (): void => {
      this.check = undefined;
      const { status } = this.cluster;
      if (status !== 'ready') this.listener?.onUnreachable(new Error(`no connection (${status})`));
    };
    this.check ??= this.clock.schedule(this.requestTimeoutMs, check, true);
  }
}
