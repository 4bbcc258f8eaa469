import type { StoreListener } from '../../core/store/lock-store.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { isCluster, type RedisCluster } from '../../redis/cluster/cluster-client.js';
import type { RedisSubscriber } from '../../redis/redis-client.js';
import type { Topology } from '../../redis/topology.js';
import { SingleNode } from '../../redis/single-node.js';
import type { StoreContext } from '../store-context.js';
import {
  CHANNEL_PREFIX,
  HandoffChannel,
  type HandoffListener,
  type HandoffChannels,
} from './handoff/handoff-channel.js';
import { ShardedHandoffChannels } from './handoff/sharded-handoff-channels.js';
import { keysOf } from './token-scripts.js';

/** The topology of the token store. */
export interface TokenTopology extends Topology {
  /** Returns the lock, the last fencing token of its hash tag, and the queue, as they are sent. */
  keysOf(key: string): readonly string[];
  /** Returns the further arguments of a script that hands off the key's lock. */
  handoffArgs(key: string): readonly string[];
  /** Begins to report the state of the connections. Returns the handoff channels and how to stop. */
  listen(listener: StoreListener, events: HandoffListener): Listening;
}

export interface Listening {
  readonly handoffs: HandoffChannels;
  readonly stop: () => void;
}

const NONE: readonly string[] = [];

/** Returns the topology of the cluster or of the single server that the client leads to. */
export function tokenTopology(context: StoreContext): TokenTopology {
  const client = context.redis();
  return isCluster(client) ? new TokenCluster(client, context) : new TokenSingleNode(context);
}

class TokenSingleNode extends SingleNode implements TokenTopology {
  constructor(private readonly context: StoreContext) {
    super(context.redis(), context.clock, context.requestTimeoutMs);
  }

  keysOf(key: string): readonly string[] {
    return keysOf(key);
  }

  handoffArgs(): readonly string[] {
    return NONE;
  }

  listen(listener: StoreListener, events: HandoffListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    const connect = (): RedisSubscriber | undefined => this.context.subscriber();
    const { instanceId } = listener;
    const handoffs = new HandoffChannel(instanceId, this.connection, clock, requestTimeoutMs, connect, events);
    return { handoffs, stop: this.connection.listen(listener, handoffs) };
  }
}

class TokenCluster extends ClusterTopology implements TokenTopology {
  constructor(
    cluster: RedisCluster,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
  }

  // A key without braces is its own hash tag, including the client's prefix.
  keysOf(key: string): readonly string[] {
    const tagged = this.prefix === '' || key.includes('{') ? key : `{${this.prefix}${key}}`;
    const [, ...helpers] = keysOf(tagged);
    return [key, ...helpers].map((name) => this.keyOf(name));
  }

  handoffArgs(key: string): readonly string[] {
    return [`${CHANNEL_PREFIX}{${this.tagOf(key)}}:`];
  }

  listen(listener: StoreListener, events: HandoffListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    const handoffs = new ShardedHandoffChannels(listener.instanceId, this, clock, requestTimeoutMs, events);
    return { handoffs, stop: this.watchNodes(listener, handoffs.subscriptions) };
  }
}
