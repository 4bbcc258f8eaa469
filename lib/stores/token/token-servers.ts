import type { StoreListener } from '../../core/lock-store.js';
import { ClusterServers } from '../redis/cluster/cluster-servers.js';
import { isCluster, type RedisCluster } from '../redis/redis-cluster.js';
import type { Servers } from '../redis/servers.js';
import { SingleServer } from '../redis/single-server.js';
import type { StoreContext } from '../store-context.js';
import { CHANNEL_PREFIX, HandOffChannel, type HandOffListener, type HandOffs } from './hand-off-channel.js';
import { ShardChannels } from './shard-channels.js';
import { keysOf } from './token-scripts.js';

/** Where the keys are, and how those who wait there are told of locks. */
export interface TokenServers extends Servers {
  /** The lock, the last fencing token under its hash tag, and the queue for it, before which those stand who share it, as they are sent. */
  keysOf(key: string): readonly string[];
  /** What a script that hands the key's lock over is told besides. */
  handOffArgs(key: string): readonly string[];
  /** Begins to watch the connections; answers how hand-offs are heard, and how to stop. */
  listen(listener: StoreListener, events: HandOffListener): Listening;
}

export interface Listening {
  readonly handOffs: HandOffs;
  stop(): void;
}

const NONE: readonly string[] = [];

/** On the cluster or on the one server that the client leads to. */
export function tokenServers(context: StoreContext): TokenServers {
  const client = context.redis();
  return isCluster(client) ? new TokenCluster(client, context) : new TokenServer(context);
}

class TokenServer extends SingleServer implements TokenServers {
  constructor(private readonly context: StoreContext) {
    super(context.redis(), context.clock, context.requestTimeoutMs);
  }

  keysOf(key: string): readonly string[] {
    return keysOf(key);
  }

  handOffArgs(): readonly string[] {
    return NONE;
  }

  listen(listener: StoreListener, events: HandOffListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    const connect = () => this.context.subscriber();
    const { instanceId } = listener;
    const handOffs = new HandOffChannel(instanceId, this.connection, clock, requestTimeoutMs, connect, events);
    return { handOffs, stop: this.connection.listen(listener, handOffs) };
  }
}

class TokenCluster extends ClusterServers implements TokenServers {
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

  handOffArgs(key: string): readonly string[] {
    return [`${CHANNEL_PREFIX}{${this.tagOf(key)}}:`];
  }

  listen(listener: StoreListener, events: HandOffListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    const handOffs = new ShardChannels(listener.instanceId, this, clock, requestTimeoutMs, events);
    return { handOffs, stop: this.watch(listener, handOffs) };
  }
}
