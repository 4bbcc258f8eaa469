import { runOutside } from '../../common/async-context.js';
import { messageOf } from '../../common/errors.js';
import { hashTag } from '../../keys/resource-key.js';
import type { ReplyListener } from '../../contract/reply-listener.js';
import type { KeyFilter } from '../../contract/server-connection.js';
import { downServer, handoffOf, type ServerPing, type StorePing } from '../../contract/store-ping.js';
import type { Clock, Timer } from '../../clock/clock.js';
import { type ClusterClient, type FurtherConnection, mastersOf, type ServerClient } from '../client-port.js';
import type { ScanRequest } from '../key-scan.js';
import { type ChannelListener, ChannelSource } from '../pubsub/channel-source.js';
import { reachedAt, redirectionIn } from '../redirection.js';
import { type ConnectionListener, describeState, RedisConnection, REPORT_EVERY_MS } from '../redis-connection.js';
import { toError } from '../redis-errors.js';
import { promiseOf } from '../redis-script.js';
import type { NodeRequest, RedisNode, Topology } from '../topology.js';
import { scanCluster } from './cluster-scan.js';
import { SLOTS, slotOfTag } from '../slots.js';

/** The pause between two attempts at a request that the cluster cannot serve just now. */
const PAUSE_MS = 25;

/** Nodes that disagree may redirect a request in a loop for a moment. */
const MAX_REDIRECTIONS = 4;

/** The shortest time between two refreshes of the slot table. One refresh serves all requests that were redirected. */
const REFRESH_AFTER_MS = 100;

/** The same while the connection to a master has ended and is not back. Each refresh tries to connect to it again. */
const RECONNECT_AFTER_MS = 500;

/** What the state `connect` of a Cluster means. */
const NO_SLOTS = 'connected, but no node has sent the slots of the cluster yet';

/**
 * The topology of a cluster: each key is on the node that has its slot, by the slot table of the client. Requests go
 * straight to that node: the routing of ioredis costs a third more, and hides which server is silent.
 */
export class ClusterTopology implements Topology {
  /** The client's `keyPrefix`. The slot of a key depends on it, too. */
  readonly prefix: string;
  /** Receives the messages and the events of the nodes' channels. Undefined before `watch` and after its end. */
  channels: ChannelListener | undefined;
  private readonly nodes = new Map<string, ClusterNode>();
  /** The addresses of nodes whose connection has ended and is not back. */
  private readonly lost = new Set<string>();
  /** The address of each slot's master when the slot table was read last. */
  private masters: readonly (string | undefined)[] = [];
  /** Why the slot table could not be read. Undefined after it was read. */
  private lastError: Error | undefined;
  private listener: ConnectionListener | undefined;
  private outageTimer: Timer | undefined;
  private refreshTimer: Timer | undefined;
  private refreshedAt = -Infinity;
  private isClosed = false;

  constructor(
    private readonly cluster: ClusterClient,
    readonly clock: Clock,
    readonly requestTimeoutMs: number,
  ) {
    this.prefix = cluster.keyPrefix;
  }

  /** Returns the part of the prefixed key that decides its slot. */
  tagOf(key: string): string {
    return hashTag(this.prefix + key);
  }

  /** Follows redirections. Repeats what the cluster cannot serve just now, within `requestTimeoutMs`. */
  request<T>(key: string, request: NodeRequest<T>): void {
    const node = this.nodeOf(key);
    const sent = new SentRequest(this, key, request, node, this.clock.now() + this.requestTimeoutMs);
    if (node === undefined) return sent.onFailed(notConnected());
    try {
      request.send(node, sent);
    } catch (error) {
      sent.onFailed(error);
    }
  }

  sendToNode<T>(key: string, send: (node: RedisNode) => Promise<T>): Promise<T> {
    const sendTo = (node: RedisNode, sent: ReplyListener<T>): void => {
      void send(node).then(
        (reply) => sent.onReply(reply),
        (error: unknown) => sent.onFailed(error),
      );
    };
    return promiseOf((listener) => this.request(key, { ...listener, send: sendTo }));
  }

  /** Sends a request again that its node has not served, or for which there was no node. @internal */
  async sendAgain<T>(sent: SentRequest<T>, failure: unknown): Promise<T> {
    const { key, request, giveUpAt } = sent;
    let { node, wasReady } = sent;
    let error = failure;
    for (let redirections = 0; ; redirections += 1) {
      // Another node may have the slot by now.
      this.refresh();
      const redirection = redirectionIn(error);
      // A request whose connection has ended may have run. It ends, too, and its owner decides what follows.
      const isOver = redirection === undefined || (redirection.kind === 'lost' && wasReady);
      if (isOver && node !== undefined) throw error;
      const named = redirections < MAX_REDIRECTIONS ? redirection?.address : undefined;
      const target = this.targetOf(named, node);
      if (target === undefined) {
        if (this.clock.now() + PAUSE_MS >= giveUpAt) throw error;
        await new Promise<void>((resolve) => this.clock.schedule(PAUSE_MS, resolve));
        redirections = -1;
      }
      node = target ?? this.nodeOf(key);
      wasReady = node?.connection.ready === true;
      error = notConnected();
      if (node === undefined) continue;
      const to = target !== undefined && redirection?.kind === 'ask' ? node.withAsking : node;
      try {
        return await promiseOf<T>((listener) => request.send(to, listener));
      } catch (again) {
        error = again;
      }
    }
  }

  scan(request: ScanRequest): AsyncIterable<readonly string[]> {
    return scanCluster(this, request);
  }

  async ping(polling: string | undefined): Promise<StorePing> {
    const masters = [...this.masterNodes()];
    const ping = async (address: string, node: ClusterNode | undefined): Promise<ServerPing> =>
      node === undefined ? downServer(address, 'no connection') : node.connection.ping(address);
    const servers = await Promise.all(masters.map(([address, node]) => ping(address, node)));
    const { lastError } = this;
    const orphans = SLOTS - this.cluster.slots.filter((addresses) => addresses !== undefined).length;
    const reason = lastError === undefined ? '' : ` (${messageOf(lastError)})`;
    const isUp = orphans === 0 && servers.every((server) => server.isUp);
    // By now, another master may have the slots of the one that is down.
    if (!isUp) this.refresh();
    const degraded = orphans === 0 ? polling : `slots without a known master: ${orphans}${reason}`;
    return { isUp, handoff: handoffOf(polling), degraded, servers };
  }

  watch(listener: ConnectionListener, channels: ChannelListener): () => void {
    const { cluster } = this;
    this.listener = listener;
    this.channels = channels;
    const stopWatching = cluster.watch({
      refresh: () => this.onRefresh(),
      error: (error) => {
        this.lastError = error;
        listener.onDown(error);
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
    const address = this.serverOf(key);
    return address === undefined ? undefined : this.nodeAt(address);
  }

  sourceOf(key: string): ChannelSource | undefined {
    return this.nodeOf(key)?.source;
  }

  serverOf(key: string): string | undefined {
    return this.cluster.slots[slotOfTag(this.tagOf(key))]?.[0];
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

  onNodeDown({ address }: ClusterNode, error: Error): void {
    this.listener?.onDown(error, address);
  }

  onNodeUp({ address }: ClusterNode): void {
    this.listener?.onUp(address);
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

  /** Returns the node to which `sender` has redirected a request. Undefined if it has named none. */
  private targetOf(named: string | undefined, sender: ClusterNode | undefined): ClusterNode | undefined {
    if (named === undefined || sender === undefined) return undefined;
    const to = reachedAt(named, sender.address, this.cluster.natMap);
    const known = this.nodeAt(to);
    if (known !== undefined || this.isClosed) return known;
    // A node whose first slot is being migrated has some keys already, and is not in the slot table.
    const client = this.cluster.connectTo(to);
    return client && this.addNode(to, client, client);
  }

  private keysAt(address: string): KeyFilter {
    return (key) => this.serverOf(key) === address;
  }

  private nodeAt(address: string): ClusterNode | undefined {
    const known = this.nodes.get(address);
    if (known !== undefined || this.isClosed) return known;
    const client = this.cluster.nodeAt(address);
    return client && this.addNode(address, client);
  }

  private addNode(address: string, client: ServerClient, own?: FurtherConnection): ClusterNode {
    const node = runOutside(() => new ClusterNode(this, address, client, own));
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
      this.listener?.onDown(toError(error));
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
    if (moved.size > 0) this.listener?.onReconnected((key) => moved.has(slotOfTag(this.tagOf(key))));
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
      this.listener?.onDown(this.lastError ?? new Error(why));
      this.startOutageTimer(REPORT_EVERY_MS);
    };
    this.outageTimer ??= this.clock.schedule(delayMs, report, true);
  }
}

/** One node of a cluster, for as long as the client's connection to it lasts. */
export class ClusterNode implements RedisNode {
  readonly connection: RedisConnection;
  readonly source: ChannelSource;
  private readonly stopListening: () => void;

  constructor(
    private readonly cluster: ClusterTopology,
    readonly address: string,
    private readonly client: ServerClient,
    /** The client, if the slot table did not name the node. */
    private readonly ownConnection?: FurtherConnection,
  ) {
    const { clock, requestTimeoutMs } = cluster;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, address);
    const onMoved = (): void => cluster.onChannelsRemoved(this);
    this.source = new ChannelSource(this.connection, clock, requestTimeoutMs, () => cluster.channels, onMoved);
    const connectionListener = {
      onDisconnected: () => cluster.onNodeDisconnected(this),
      // A node is usually another object when it is back, so its cluster knows which nodes were lost.
      onReconnected: () => undefined,
      onDown: (error: Error) => cluster.onNodeDown(this, error),
      onUp: () => cluster.onNodeUp(this),
    };
    const follower = { reconnect: () => this.source.reconnect(), close: () => this.close() };
    this.stopListening = this.connection.listen(connectionListener, follower);
    if (client.status === 'wait') client.connect();
  }

  // A client that does not reconnect by itself rejects its queued commands when its connection ends.
  get failsFast(): boolean {
    return this.client.status !== 'reconnecting' && !this.connection.isGivenUp;
  }

  /** The same node for requests that another node has redirected here by `ASK`. */
  get withAsking(): RedisNode {
    const { clock, requestTimeoutMs } = this.cluster;
    const connection = new RedisConnection(this.client, clock, requestTimeoutMs);
    connection.evalOnly = true;
    connection.beforeScript = () => void this.client.send('asking').catch(() => undefined);
    return { connection, failsFast: true };
  }

  /** Stops using the node. A connection of the cluster's client stays as it is. */
  close(): void {
    this.stopListening();
    this.source.close();
    this.ownConnection?.disconnect();
    this.cluster.onNodeEnded(this);
  }
}

/** A request that was sent to a node, or for which no node was found. */
class SentRequest<T> implements ReplyListener<T> {
  /** Whether it was sent over a connection, and did not wait for one. */
  readonly wasReady: boolean;

  constructor(
    private readonly topology: ClusterTopology,
    readonly key: string,
    readonly request: NodeRequest<T>,
    readonly node: ClusterNode | undefined,
    /** The local moment from which it is not sent again. */
    readonly giveUpAt: number,
  ) {
    this.wasReady = node?.connection.ready === true;
  }

  onReply(reply: T): void {
    this.request.onReply(reply);
  }

  onFailed(failure: unknown): void {
    void this.topology
      .sendAgain(this, failure)
      .then((reply) => this.request.onReply(reply))
      .catch((error: unknown) => this.request.onFailed(error));
  }
}

function notConnected(): Error {
  return new Error('there is no connection to the node that has the slot');
}
