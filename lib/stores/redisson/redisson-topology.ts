import type { StoreListener } from '../../core/store/lock-store.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { type ClusterClient, isCluster, type ServerClient } from '../../redis/client-port.js';
import type { Topology } from '../../redis/topology.js';
import { SingleNode } from '../../redis/single-node.js';
import type { StoreContext } from '../store-context.js';
import { channelOf } from './redisson-scripts.js';
import { type LockPubSubListener, LockPubSub } from './lock-pubsub.js';
import { ChannelSource } from '../../redis/pubsub/channel-source.js';

/** The servers that keep the locks, and the pub/sub that notifies waiters of releases. */
export interface RedissonTopology extends Topology {
  /** Additional arguments of the release script. */
  readonly releaseArgs: readonly string[];
  /** Begins to watch the connections. Returns the pub/sub and a function that ends it. */
  listen(listener: StoreListener, events: LockPubSubListener): Listening;
}

export interface Listening {
  readonly pubsub: LockPubSub;
  stop(): void;
}

/** Returns the topology of the client: a cluster or a single node. */
export function redissonTopology(context: StoreContext): RedissonTopology {
  const client = context.redis();
  return isCluster(client) ? new ClusterRedisson(client, context) : new SingleNodeRedisson(client, context);
}

class SingleNodeRedisson extends SingleNode implements RedissonTopology {
  readonly releaseArgs: readonly string[] = [];

  constructor(
    client: ServerClient,
    private readonly context: StoreContext,
  ) {
    super(client, context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: LockPubSubListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    // Named as the channels of locks are, so that an ACL that allows those allows this one. No lock has that name.
    const probeChannel = channelOf(`nestjs-redis-lock:${listener.instanceId}`);
    const channels = (): LockPubSub['subscriptions'] => pubsub.subscriptions;
    const source = new ChannelSource(this.connection, clock, requestTimeoutMs, channels);
    const sources = { sourceOf: () => source };
    const nameOf = (key: string): string => channelOf(this.prefix + key);
    const pubsub: LockPubSub = new LockPubSub(clock, requestTimeoutMs, events, sources, nameOf, probeChannel);
    return { pubsub, stop: this.connection.listen(listener, source) };
  }
}

class ClusterRedisson extends ClusterTopology implements RedissonTopology {
  readonly releaseArgs: readonly string[] = ['sharded'];

  constructor(
    cluster: ClusterClient,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: LockPubSubListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    const nameOf = (key: string): string => channelOf(this.prefix + key);
    const pubsub = new LockPubSub(clock, requestTimeoutMs, events, this, nameOf);
    return { pubsub, stop: this.watchNodes(listener, pubsub.subscriptions) };
  }
}
