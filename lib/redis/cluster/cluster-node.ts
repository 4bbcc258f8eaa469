import type { Clock, Timer } from '../../core/time/clock.js';
import type { ServerClient } from '../client-port.js';
import { type ChannelListener, ChannelSource } from '../pubsub/channel-source.js';
import { RedisConnection } from '../redis-connection.js';
import type { RedisNode } from '../topology.js';

/** Receives the events of a node. */
export interface NodeListener {
  onNodeDisconnected(node: ClusterNode): void;
  onNodeUnreachable(node: ClusterNode, error: Error): void;
  onNodeReachable(node: ClusterNode): void;
  /** The node has not replied for `requestTimeoutMs`. Another node may have taken its slots. */
  onNodeSilent(node: ClusterNode): void;
  /** The node has removed sharded channels, because their slot has moved. */
  onChannelsRemoved(node: ClusterNode): void;
  /** The node's connection has ended. Another client takes its place. */
  onNodeEnded(node: ClusterNode): void;
  /** Receives the messages and the events of the nodes' channels. Undefined before `listen` and after its end. */
  readonly channels: ChannelListener | undefined;
}

/** What all nodes of a cluster share. */
export interface NodeDeps {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  readonly listener: NodeListener;
}

/** One node of a cluster, for as long as the client's connection to it lasts. */
export class ClusterNode implements RedisNode {
  readonly connection: RedisConnection;
  readonly source: ChannelSource;
  private nodeWithAsking: RedisNode | undefined;
  private unansweredCount = 0;
  private silenceTimer: Timer | undefined;
  private readonly stopListening: () => void;
  constructor(
    readonly address: string,
    readonly client: ServerClient,
    private readonly deps: NodeDeps,
  ) {
    const { clock, requestTimeoutMs, listener } = deps;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, true, address);
    const onMoved = (): void => listener.onChannelsRemoved(this);
    this.source = new ChannelSource(this.connection, clock, requestTimeoutMs, () => listener.channels, onMoved);
    const connectionListener = {
      onDisconnected: () => listener.onNodeDisconnected(this),
      // A node is usually another object when it is back, so the slot map knows which nodes were lost.
      onReconnected: () => undefined,
      onUnreachable: (error: Error) => listener.onNodeUnreachable(this, error),
      onReachable: () => listener.onNodeReachable(this),
    };
    const follower = { reconnect: () => this.source.reconnect(), close: () => this.close() };
    this.stopListening = this.connection.listen(connectionListener, follower);
    if (client.status === 'wait') client.connect();
  }

  // A client that does not reconnect by itself rejects its queued commands when its connection ends.
  get failsFast(): boolean {
    return this.client.status !== 'reconnecting';
  }

  /** The same node for requests that another node has redirected here by `ASK`. */
  get withAsking(): RedisNode {
    if (this.nodeWithAsking === undefined) {
      const { clock, requestTimeoutMs } = this.deps;
      const { client } = this;
      const connection = new RedisConnection(client, clock, requestTimeoutMs);
      connection.evalOnly = true;
      connection.beforeScript = () => void client.send('asking').catch(() => undefined);
      this.nodeWithAsking = { connection, failsFast: true };
    }
    return this.nodeWithAsking;
  }

  /** Returns the reply, and reports the node as silent if it does not reply in time. */
  trackReply<T>(pendingReply: Promise<T>): Promise<T> {
    this.onSent();
    return pendingReply.finally(() => this.onReplied());
  }

  /** Called with each request. Reports the node as silent if it does not reply in time. */
  onSent(): void {
    this.unansweredCount += 1;
    this.silenceTimer ??= this.startSilenceTimer();
  }

  /** Called with the reply to each request, and with its failure. */
  onReplied(): void {
    this.unansweredCount -= 1;
  }

  /** Stops using the node. Its connection belongs to the client of the cluster and stays as it is. */
  close(): void {
    this.stopListening();
    this.silenceTimer?.cancel();
    this.silenceTimer = undefined;
    this.unansweredCount = -Infinity;
    this.source.close();
    this.deps.listener.onNodeEnded(this);
  }

  // A stopped node keeps its connection open, so its silence is the only sign that requests should go elsewhere.
  private startSilenceTimer(): Timer {
    const { clock, requestTimeoutMs, listener } = this.deps;
    const { received } = this.connection;
    const checkSilence = (): void => {
      this.silenceTimer = undefined;
      if (this.connection.received === received) listener.onNodeSilent(this);
      if (this.unansweredCount > 0) this.silenceTimer ??= this.startSilenceTimer();
    };
    // The event loop runs timers before it reads sockets.
    const checkLater = (): void => {
      this.silenceTimer = clock.schedule(0, checkSilence, true);
    };
    return clock.schedule(requestTimeoutMs, checkLater, true);
  }
}
