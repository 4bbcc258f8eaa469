import { type Clock, withTimeout } from '../../core/time/clock.js';
import { downServer, type ServerPing } from '../../core/store/store-ping.js';
import { messageOf } from '../../core/errors.js';
import type { ClusterClient } from '../client-port.js';
import type { ChannelListener, ChannelSource } from '../pubsub/channel-source.js';
import { acquireFailed, toError } from '../redis-errors.js';
import type { ConnectionListener, RedisConnection } from '../redis-connection.js';
import type { ReplyListener } from '../../core/store/reply-listener.js';
import { promiseOf, type RedisScript } from '../redis-script.js';
import { ClusterNode } from './cluster-node.js';
import { hashTag } from '../../core/keys/resource-key.js';
import { type Redirection, redirectionIn } from '../redirection.js';
import type { ScanRequest } from '../key-scan.js';
import { Pinger } from '../pinger.js';
import { scanCluster } from './cluster-scan.js';
import { SlotMap } from './slot-map.js';
import { slotOfTag } from './hash-slot.js';
import type { Call, NodeRequest, RedisNode, Topology, TopologyPing } from '../topology.js';

/** The pause between two attempts at a request that the cluster cannot serve just now. */
const PAUSE_MS = 25;

/** Nodes that disagree may redirect a request in a loop for a moment. */
const MAX_REDIRECTIONS = 4;

/** The topology of a cluster: each key is on the node that has its slot. */
export class ClusterTopology implements Topology {
  /** @internal Public for tests. */
  readonly slotMap: SlotMap;
  /** The client's `keyPrefix`. The slot of a key depends on it, too. */
  readonly prefix: string;
  private readonly pinger: Pinger;

  constructor(
    cluster: ClusterClient,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
  ) {
    this.prefix = cluster.keyPrefix;
    this.pinger = new Pinger({ clock, timeoutMs: requestTimeoutMs });
    this.slotMap = new SlotMap(cluster, clock, requestTimeoutMs, (key) => this.slotOf(key));
  }

  /** Returns the part of the prefixed key that decides its slot. */
  tagOf(key: string): string {
    return hashTag(this.prefix + key);
  }

  /** Follows redirections. Repeats what the cluster cannot serve just now, within `requestTimeoutMs`. */
  request<T>(key: string, request: NodeRequest<T>): void {
    const slot = this.slotOf(key);
    const node = this.slotMap.nodeOf(slot);
    const giveUpAt = this.clock.now() + this.requestTimeoutMs;
    const sent = new RequestAtNode(this, request, slot, node, giveUpAt);
    if (node === undefined) return sent.onFailed(notConnected(slot));
    node.onSent();
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

  async runAll<Reply>(script: RedisScript<Reply>, calls: readonly Call[]): Promise<readonly (Reply | Error)[]> {
    const byNode = this.byNode(calls, ({ key }) => key);
    const replies = new Map<Call, Reply | Error>();
    const groups = [...byNode].map(async ([node, group]) => {
      const first = node === undefined ? [] : await this.runAllAt(node, script, group);
      await Promise.all(group.map(async (call, i) => replies.set(call, await this.finalReply(script, call, first[i]))));
    });
    await Promise.all(groups);
    return calls.map((call) => replies.get(call) as Reply | Error);
  }

  scan(request: ScanRequest): AsyncIterable<readonly string[]> {
    const { slotMap, clock, requestTimeoutMs } = this;
    return scanCluster(slotMap, request, { clock, requestTimeoutMs });
  }

  async ping(): Promise<TopologyPing> {
    const masters = [...this.slotMap.masterNodes()];
    const ping = async (address: string, node: ClusterNode | undefined): Promise<ServerPing> =>
      node === undefined ? downServer(address, 'no connection') : this.pinger.ping(node.connection, address);
    const servers = await Promise.all(masters.map(([address, node]) => ping(address, node)));
    const { orphans, lastError } = this.slotMap;
    const reason = lastError === undefined ? '' : ` (${messageOf(lastError)})`;
    const isUp = orphans === 0 && servers.every((server) => server.isUp);
    // By now, another master may have the slots of the one that is down.
    if (!isUp) this.slotMap.refresh();
    return { isUp, servers, missing: orphans === 0 ? undefined : `slots without a known master: ${orphans}${reason}` };
  }

  connections(): readonly RedisConnection[] {
    return this.slotMap.connections();
  }

  watch(listener: ConnectionListener, channels: ChannelListener): () => void {
    return this.slotMap.listen(listener, channels);
  }

  /** Returns the node that has the key. Undefined while there is no connection to it. */
  nodeOf(key: string): ClusterNode | undefined {
    return this.slotMap.nodeOf(this.slotOf(key));
  }

  sourceOf(key: string): ChannelSource | undefined {
    return this.nodeOf(key)?.source;
  }

  /** Groups items by the node that has their key, or by undefined while there is no connection to it. */
  byNode<T>(items: readonly T[], keyOf: (item: T) => string): Map<ClusterNode | undefined, T[]> {
    const byNode = new Map<ClusterNode | undefined, T[]>();
    for (const item of items) {
      const node = this.nodeOf(keyOf(item));
      const others = byNode.get(node);
      if (others === undefined) byNode.set(node, [item]);
      else others.push(item);
    }
    return byNode;
  }

  serverOf(key: string): string | undefined {
    return this.slotMap.addressOf(this.slotOf(key));
  }

  learnRedirection(key: string, redirection: Redirection): void {
    this.slotMap.nodeAfter(this.slotOf(key), redirection, this.nodeOf(key));
  }

  refresh(): void {
    this.slotMap.refresh();
  }

  private slotOf(key: string): number {
    return slotOfTag(this.tagOf(key));
  }

  /** Sends a request again that failed at a node, or for which no node was found. @internal */
  async sendAgain<T>({ request, slot, node: failedAt, giveUpAt }: RequestAtNode<T>, failure: unknown): Promise<T> {
    let node: RedisNode | undefined = failedAt;
    let error = failure;
    for (let attempts = 1; ; attempts++) {
      const redirection = redirectionIn(error);
      if (redirection === undefined) this.slotMap.refresh();
      if (redirection === undefined && node !== undefined) throw error;
      const from = node instanceof ClusterNode ? node : undefined;
      node = redirection && this.slotMap.nodeAfter(slot, redirection, from);
      if (node === undefined || attempts >= MAX_REDIRECTIONS) {
        if (this.clock.now() + PAUSE_MS >= giveUpAt) throw acquireFailed(error);
        await this.pause();
        node = this.slotMap.nodeOf(slot);
      }
      try {
        if (node !== undefined) return await this.replyOf(node, request);
        error = notConnected(slot);
      } catch (again) {
        error = again;
      }
    }
  }

  private replyOf<T>(node: RedisNode, request: NodeRequest<T>): Promise<T> {
    const reply = promiseOf<T>((listener) => request.send(node, listener));
    return node instanceof ClusterNode ? node.trackReply(reply) : reply;
  }

  private runAllAt<Reply>(node: ClusterNode, script: RedisScript<Reply>, calls: readonly Call[]) {
    const replies = node.trackReply(script.runAll(node.connection, calls));
    return this.withinRequestTimeout<(Reply | Error)[]>(replies, () => calls.map(noAnswer));
  }

  /** Returns the reply, or the reply of the node to which the call was redirected. */
  private finalReply<Reply>(script: RedisScript<Reply>, call: Call, reply: Reply | Error | undefined) {
    const isFinal = reply !== undefined && redirectionIn(reply) === undefined;
    if (isFinal && reply instanceof Error) this.slotMap.refresh();
    if (isFinal) return reply;
    const { keys, args } = call;
    const repeated = this.sendToNode(call.key, ({ connection }) => script.run(connection, keys, args)).catch(toError);
    return this.withinRequestTimeout<Reply | Error>(repeated, noAnswer);
  }

  // A node that hangs may have lost its slots, so nothing waits for it longer than a request may take.
  private withinRequestTimeout<T>(reply: Promise<T>, onTimeout: () => T): Promise<T> {
    return withTimeout(this.clock, this.requestTimeoutMs, reply, onTimeout);
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(PAUSE_MS, resolve));
  }
}

/** A request that was sent to a node, or for which no node was found. */
class RequestAtNode<T> implements ReplyListener<T> {
  constructor(
    private readonly topology: ClusterTopology,
    readonly request: NodeRequest<T>,
    readonly slot: number,
    readonly node: ClusterNode | undefined,
    /** The local moment from which it is not sent again. */
    readonly giveUpAt: number,
  ) {}

  onReply(reply: T): void {
    this.node?.onReplied();
    try {
      this.request.onReply(reply);
    } catch (error) {
      this.request.onFailed(error);
    }
  }

  onFailed(failure: unknown): void {
    this.node?.onReplied();
    void this.topology
      .sendAgain(this, failure)
      .then((reply) => this.request.onReply(reply))
      .catch((error: unknown) => this.request.onFailed(error));
  }
}

function noAnswer(): Error {
  return new Error('no reply');
}

function notConnected(slot: number): Error {
  return new Error(`there is no connection to the node that has slot ${slot}`);
}
