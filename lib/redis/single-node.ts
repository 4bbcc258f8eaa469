import type { Clock } from '../clock/clock.js';
import { handoffOf, type StorePing } from '../contract/store-ping.js';
import { type ClusterClient, isCluster, type ServerClient } from './client-port.js';
import { ClusterTopology } from './cluster/cluster-topology.js';
import { scanKeys, type ScanRequest } from './key-scan.js';
import { type ChannelListener, ChannelSource } from './pubsub/channel-source.js';
import { type ConnectionListener, RedisConnection } from './redis-connection.js';
import { serverNameOf } from './server-address.js';
import type { NodeRequest, RedisNode, Topology } from './topology.js';

/** What the topology of a store needs. */
export interface TopologyContext {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  redis(): ServerClient | ClusterClient;
}

/** Returns the topology of the cluster or of the single server that the client leads to. */
export function topologyOf(context: TopologyContext): Topology {
  const { clock, requestTimeoutMs } = context;
  const client = context.redis();
  return isCluster(client)
    ? new ClusterTopology(client, clock, requestTimeoutMs)
    : new SingleNode(client, clock, requestTimeoutMs);
}

/** The topology of one server: every key is there. */
class SingleNode implements Topology, RedisNode {
  readonly connection: RedisConnection;
  readonly prefix: string;
  private readonly source: ChannelSource;
  private channels: ChannelListener | undefined;

  constructor(client: ServerClient, clock: Clock, requestTimeoutMs: number) {
    this.prefix = client.keyPrefix;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    this.source = new ChannelSource(this.connection, clock, requestTimeoutMs, () => this.channels);
  }

  get failsFast(): boolean {
    return this.connection.ready;
  }

  sendToNode<T>(_key: string, send: (node: RedisNode) => Promise<T>): Promise<T> {
    return send(this);
  }

  request<T>(_key: string, request: NodeRequest<T>): void {
    request.send(this, request);
  }

  scan(request: ScanRequest): AsyncIterable<readonly string[]> {
    return scanKeys(this.connection, request);
  }

  async ping(polling: string | undefined): Promise<StorePing> {
    const server = await this.connection.ping(serverNameOf(this.connection.client));
    return { isUp: server.isUp, handoff: handoffOf(polling), degraded: polling, servers: [server] };
  }

  connections(): readonly RedisConnection[] {
    return [this.connection];
  }

  watch(listener: ConnectionListener, channels: ChannelListener): () => void {
    this.channels = channels;
    return this.connection.listen(listener, this.source);
  }

  sourceOf(): ChannelSource {
    return this.source;
  }

  nodeOf(): RedisNode {
    return this;
  }
}
