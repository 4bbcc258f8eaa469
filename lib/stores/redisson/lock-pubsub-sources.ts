import type { Clock } from '../../core/time/clock.js';
import type { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import type { Redirection } from '../../redis/redirection.js';
import type { ChannelListener, ChannelSource } from '../../redis/pubsub/channel-source.js';
import { VerifiedSubscriber } from '../../redis/pubsub/verified-subscriber.js';
import type { RedisSubscriber } from '../../redis/redis-client.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts } from './scripts.js';

/** The servers that publish the releases of locks. */
export interface LockPubSubSources {
  /** Returns the server that publishes the releases of the key. Undefined while there is no connection to it. */
  sourceOf(key: string): ChannelSource | undefined;
  /** Learns from a redirection that the key's server has sent in reply to a SUBSCRIBE. */
  learnRedirection(key: string, redirection: Redirection): void;
  close(): void;
}

const probeScript = new RedisScript(scripts.probeSubscription, Number);

/** A single server, which publishes the releases of all keys. A probe proves that its messages are received. */
export class SingleNodeSource implements ChannelSource, LockPubSubSources {
  readonly subscriber: VerifiedSubscriber;

  constructor(
    private readonly probeChannel: string,
    readonly connection: RedisConnection,
    clock: Clock,
    requestTimeoutMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    listener: () => ChannelListener,
  ) {
    this.subscriber = new VerifiedSubscriber(probeChannel, connection, clock, requestTimeoutMs, {
      onReady: () => listener().onSourceReady(this),
      onLost: () => listener().onSourceLost(this),
      onMessage: (channel, message) => listener().onMessage(this, channel, message),
      onRefused: (why) => listener().onRefused(why),
    });
  }

  openSubscriber(): void {
    this.subscriber.open(this.connect, () => probeScript.run(this.connection, [], [this.probeChannel]));
  }

  onLastUnsubscribed(): void {
    // The next waiter needs the connection again.
  }

  sourceOf(): ChannelSource {
    return this;
  }

  learnRedirection(): void {
    // There is no other server.
  }

  close(): void {
    this.subscriber.close();
  }
}

/** The nodes of a cluster. The sharded channel of a lock can be subscribed only at the node that has its slot. */
export class ClusterSources implements LockPubSubSources {
  constructor(private readonly topology: Pick<ClusterTopology, 'nodeOf' | 'learnRedirection'>) {}

  sourceOf(key: string): ChannelSource | undefined {
    return this.topology.nodeOf(key);
  }

  learnRedirection(key: string, redirection: Redirection): void {
    this.topology.learnRedirection(key, redirection);
  }

  close(): void {
    // Each node's connection ends with its last channel.
  }
}
