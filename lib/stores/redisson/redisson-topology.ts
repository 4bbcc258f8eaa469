import type { StoreListener } from '../../core/store/lock-store.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { isCluster, type RedisCluster } from '../../redis/cluster/cluster-client.js';
import type { Topology } from '../../redis/topology.js';
import { SingleNode } from '../../redis/single-node.js';
import type { StoreContext } from '../store-context.js';
import { channelOf } from './redisson-scripts.js';
import { type LockPubSubListener, LockPubSub } from './lock-pubsub.js';
import { ClusterSources, SingleNodeSource } from './lock-pubsub-sources.js';

/** Where the locks are, and how those who wait hear of releases there. */
export interface RedissonTopology extends Topology {
  /** What the script that releases a lock is told besides. */
  readonly releaseArgs: readonly string[];
  /** Begins to watch the connections; answers how releases are heard, and how to stop. */
  listen(listener: StoreListener, events: LockPubSubListener): Listening;
}

export interface Listening {
  readonly messages: LockPubSub;
  stop(): void;
}

/** On the cluster or on the one server that the client leads to. */
export function redissonTopology(context: StoreContext): RedissonTopology {
  const client = context.redis();
  return isCluster(client) ? new ClusterRedisson(client, context) : new SingleNodeRedisson(context);
}

class SingleNodeRedisson extends SingleNode implements RedissonTopology {
  readonly releaseArgs: readonly string[] = [];

  constructor(private readonly context: StoreContext) {
    super(context.redis(), context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: LockPubSubListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    // Of the name of a lock's channel, so that what may be heard of locks may be heard of this; no lock has that name.
    const echo = channelOf(`nestjs-redis-lock:${listener.instanceId}`);
    const connect = () => this.context.subscriber();
    const heardBy = (): LockPubSub => messages;
    const source = new SingleNodeSource(echo, this.connection, clock, requestTimeoutMs, connect, heardBy);
    const messages: LockPubSub = new LockPubSub(clock, events, source);
    return { messages, stop: this.connection.listen(listener, source.subscriber) };
  }
}

class ClusterRedisson extends ClusterTopology implements RedissonTopology {
  readonly releaseArgs: readonly string[] = ['sharded'];

  constructor(
    cluster: RedisCluster,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: LockPubSubListener): Listening {
    const messages = new LockPubSub(this.context.clock, events, new ClusterSources(this));
    return { messages, stop: this.watch(listener, messages) };
  }
}
