import { messageOf } from '../../common/errors.js';
import { hashTag } from '../../keys/resource-key.js';
import type { ReplyListener } from '../../contract/reply-listener.js';
import { downServer, type ServerPing } from '../../contract/store-ping.js';
import type { Clock } from '../../clock/clock.js';
import type { ClusterClient } from '../client-port.js';
import type { ScanRequest } from '../key-scan.js';
import type { ChannelListener, ChannelSource } from '../pubsub/channel-source.js';
import { redirectionIn } from '../redirection.js';
import type { ConnectionListener, RedisConnection } from '../redis-connection.js';
import { promiseOf } from '../redis-script.js';
import type { NodeRequest, RedisNode, Topology, TopologyPing } from '../topology.js';
import type { ClusterNode } from './cluster-node.js';
import { ClusterNodes } from './cluster-nodes.js';
import { scanCluster } from './cluster-scan.js';
import { SLOTS, slotOfTag } from './hash-slot.js';

/** The pause between two attempts at a request that the cluster cannot serve just now. */
const PAUSE_MS = 25;

/** Nodes that disagree may redirect a request in a loop for a moment. */
const MAX_REDIRECTIONS = 4;

/** The topology of a cluster: each key is on the node that has its slot. */
export class ClusterTopology implements Topology {
  /** The client's `keyPrefix`. The slot of a key depends on it, too. */
  readonly prefix: string;
  private readonly nodes: ClusterNodes;

  constructor(
    private readonly cluster: ClusterClient,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {
    this.prefix = cluster.keyPrefix;
    this.nodes = new ClusterNodes(cluster, clock, requestTimeoutMs, (key) => slotOfTag(this.tagOf(key)));
  }

  /** Returns the part of the prefixed key that decides its slot. */
  tagOf(key: string): string {
    return hashTag(this.prefix + key);
  }

  /** Follows redirections. Repeats what the cluster cannot serve just now, within `requestTimeoutMs`. */
  request<T>(key: string, request: NodeRequest<T>): void {
    const node = this.nodeOf(key);
    const now = this.clock.now();
    const sent = new SentRequest(this, key, request, node, now + this.requestTimeoutMs);
    if (node === undefined) return sent.onFailed(notConnected());
    if (node.isSilent(now)) this.refresh();
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

  scan(request: ScanRequest): AsyncIterable<readonly string[]> {
    const { nodes, clock, requestTimeoutMs } = this;
    return scanCluster(nodes, request, { clock, requestTimeoutMs });
  }

  async ping(): Promise<TopologyPing> {
    const masters = [...this.nodes.masterNodes()];
    const ping = async (address: string, node: ClusterNode | undefined): Promise<ServerPing> =>
      node === undefined ? downServer(address, 'no connection') : node.connection.ping(address);
    const servers = await Promise.all(masters.map(([address, node]) => ping(address, node)));
    const { lastError } = this.nodes;
    const orphans = SLOTS - this.cluster.slots.filter((addresses) => addresses !== undefined).length;
    const reason = lastError === undefined ? '' : ` (${messageOf(lastError)})`;
    const isUp = orphans === 0 && servers.every((server) => server.isUp);
    // By now, another master may have the slots of the one that is down.
    if (!isUp) this.refresh();
    return { isUp, servers, missing: orphans === 0 ? undefined : `slots without a known master: ${orphans}${reason}` };
  }

  connections(): readonly RedisConnection[] {
    return this.nodes.connections();
  }

  watch(listener: ConnectionListener, channels: ChannelListener): () => void {
    return this.nodes.listen(listener, channels);
  }

  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): ClusterNode | undefined {
    return this.nodes.nodeOf(key);
  }

  sourceOf(key: string): ChannelSource | undefined {
    return this.nodeOf(key)?.source;
  }

  serverOf(key: string): string | undefined {
    return this.nodes.addressOf(key);
  }

  refresh(): void {
    this.nodes.refresh();
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
      const target = this.nodes.targetOf(named, node);
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
