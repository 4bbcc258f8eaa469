import type { Clock } from '../../clock/clock.js';
import type { FurtherConnection, ServerClient } from '../client-port.js';
import { type ChannelListener, ChannelSource } from '../pubsub/channel-source.js';
import { RedisConnection } from '../redis-connection.js';
import type { RedisNode } from '../topology.js';

/** Receives the events of a node. */
export interface NodeListener {
  onNodeDisconnected(node: ClusterNode): void;
  onNodeUnreachable(node: ClusterNode, error: Error): void;
  onNodeReachable(node: ClusterNode): void;
  /** The node has removed sharded channels, because their slot has moved. */
  onChannelsRemoved(node: ClusterNode): void;
  /** The node's connection has ended. Another client takes its place. */
  onNodeEnded(node: ClusterNode): void;
  /** Receives the messages and the events of the nodes' channels. Undefined before `watch` and after its end. */
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
  private readonly stopListening: () => void;

  constructor(
    readonly address: string,
    private readonly client: ServerClient,
    private readonly deps: NodeDeps,
    /** The client, if the slot table did not name the node. */
    private readonly ownConnection?: FurtherConnection,
  ) {
    const { clock, requestTimeoutMs, listener } = deps;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs, address);
    const onMoved = (): void => listener.onChannelsRemoved(this);
    this.source = new ChannelSource(this.connection, clock, requestTimeoutMs, () => listener.channels, onMoved);
    const connectionListener = {
      onDisconnected: () => listener.onNodeDisconnected(this),
      // A node is usually another object when it is back, so its cluster knows which nodes were lost.
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
    const { clock, requestTimeoutMs } = this.deps;
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
    this.deps.listener.onNodeEnded(this);
  }
}
