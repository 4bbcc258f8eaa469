import type { StoreListener } from '../../core/lock-store.js';
import { ClusterServers } from '../redis/cluster/cluster-servers.js';
import { isCluster, type RedisCluster } from '../redis/redis-cluster.js';
import type { Servers } from '../redis/servers.js';
import { SingleServer } from '../redis/single-server.js';
import type { StoreContext } from '../store-context.js';
import { channelOf } from './redisson-scripts.js';
import { type UnlockListener, UnlockMessages } from './unlock-messages.js';
import { ClusterUnlockSources, OneUnlockSource } from './unlock-sources.js';

/** Where the locks are, and how those who wait hear of releases there. */
export interface RedissonServers extends Servers {
  /** What the script that releases a lock is told besides. */
  readonly releaseArgs: readonly string[];
  /** Begins to watch the connections; answers how releases are heard, and how to stop. */
  listen(listener: StoreListener, events: UnlockListener): Listening;
}

export interface Listening {
  readonly messages: UnlockMessages;
  stop(): void;
}

/** On the cluster or on the one server that the client leads to. */
export function redissonServers(context: StoreContext): RedissonServers {
  const client = context.redis();
  return isCluster(client) ? new RedissonCluster(client, context) : new RedissonServer(context);
}

class RedissonServer extends SingleServer implements RedissonServers {
  readonly releaseArgs: readonly string[] = [];

  constructor(private readonly context: StoreContext) {
    super(context.redis(), context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: UnlockListener): Listening {
    const { clock, requestTimeoutMs } = this.context;
    // Of the name of a lock's channel, so that what may be heard of locks may be heard of this; no lock has that name.
    const echo = channelOf(`nestjs-redis-lock:${listener.instanceId}`);
    const connect = () => this.context.subscriber();
    const heardBy = (): UnlockMessages => messages;
    const source = new OneUnlockSource(echo, this.connection, clock, requestTimeoutMs, connect, heardBy);
    const messages: UnlockMessages = new UnlockMessages(clock, events, source);
    return { messages, stop: this.connection.listen(listener, source.subscriber) };
  }
}

class RedissonCluster extends ClusterServers implements RedissonServers {
  readonly releaseArgs: readonly string[] = ['sharded'];

  constructor(
    cluster: RedisCluster,
    private readonly context: StoreContext,
  ) {
    super(cluster, context.clock, context.requestTimeoutMs);
  }

  listen(listener: StoreListener, events: UnlockListener): Listening {
    const messages = new UnlockMessages(this.context.clock, events, new ClusterUnlockSources(this));
    return { messages, stop: this.watch(listener, messages) };
  }
}
