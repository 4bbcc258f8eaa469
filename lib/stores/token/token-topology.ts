import type { StoreListener } from '../../core/store/lock-store.js';
import { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { isCluster, type RedisCluster } from '../../redis/cluster/cluster-client.js';
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

/** Where the keys are, and how those who wait there are told of locks. */
export interface TokenTopology extends Topology {
  /** The lock, the last fencing token under its hash tag, and the queue for it, before which those stand who share it, as they are sent. */
  keysOf(key: string): readonly string[];
  /** What a script that hands the key's lock over is told besides. */
  handoffArgs(key: string): readonly string[];
  /** Begins to watch the connections; answers how hand-offs are heard, and how to stop. */
  listen(listener: StoreListener, events: HandoffListener): Listening;
}

export interface Listening {
  readonly handoffs: HandoffChannels;
  stop(): void;
}

const NONE: readonly string[] = [];

/** On the cluster or on the one server that the client leads to. */
export function tokenTopology(context: StoreContext): TokenTopology {
  const client = context.redis();
  return isCluster(client) ? new ClusterToken(client, context) : new SingleNodeToken(context);
}

class SingleNodeToken extends SingleNode implements TokenTopology {
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
    const connect = () => this.context.subscriber();
    const { instanceId } = listener;
    const handoffs = new HandoffChannel(instanceId, this.connection, clock, requestTimeoutMs, connect, events);
    return { handoffs, stop: this.connection.listen(listener, handoffs) };
  }
}

class ClusterToken extends ClusterTopology implements TokenTopology {
  constructor(
    cluster: RedisCluster,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
  }

  /** A key without braces is its own hash tag, with what the client puts before it. */
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
    return { handoffs, stop: this.watch(listener, handoffs) };
  }
}
