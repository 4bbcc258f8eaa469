import type { Clock } from '../../core/time/clock.js';
import type { ClusterTopology } from '../../redis/cluster/cluster-topology.js';
import { VerifiedSubscriber } from '../../redis/pubsub/verified-subscriber.js';
import type { RedisSubscriber } from '../../redis/redis-client.js';
import type { RedisConnection } from '../../redis/redis-connection.js';
import type { Redirection } from '../../redis/redis-errors.js';
import { RedisScript } from '../../redis/redis-script.js';
import { scripts } from './scripts.js';

/** Where releases are told: a server, and the connection on which its channels are subscribed. */
export interface LockPubSubSource {
  readonly subscriber: VerifiedSubscriber;
  /** Opens that connection, in the background, unless that was done already: for channels of the kind that the server has. */
  subscribe(kind: 'sharded or plain'): void;
}

/** Which server tells of which lock. */
export interface LockPubSubSources {
  /** Where releases of the key are told; undefined while there is no connection to it. */
  of(key: string): LockPubSubSource | undefined;
  /** Takes in what that server has answered of the key: it has to be asked elsewhere. */
  follow(key: string, redirection: Redirection): void;
  /** Nobody listens there any more. */
  idle(source: LockPubSubSource): void;
  close(): void;
}

/** Who is told of what is heard. */
export interface LockPubSubSourceListener {
  linked(source: LockPubSubSource): void;
  lost(source: LockPubSubSource): void;
  message(source: LockPubSubSource, channel: string, message: string): void;
  refused(why: string): void;
}

const echoScript = new RedisScript(scripts.probeSubscription, Number);

/** One server tells of all locks. It is proven by an echo that its releases are heard. */
export class SingleNodeSource implements LockPubSubSource, LockPubSubSources {
  readonly subscriber: VerifiedSubscriber;

  constructor(
    private readonly echoChannel: string,
    private readonly connection: RedisConnection,
    clock: Clock,
    requestTimeoutMs: number,
    private readonly connect: () => RedisSubscriber | undefined,
    listener: () => LockPubSubSourceListener,
  ) {
    const heard = {
      linked: () => listener().linked(this),
      lost: () => listener().lost(this),
      message: (channel: string, message: string) => listener().message(this, channel, message),
      refused: (why: string) => listener().refused(why),
    };
    this.subscriber = new VerifiedSubscriber(echoChannel, connection, clock, requestTimeoutMs, heard);
  }

  subscribe(): void {
    this.subscriber.open(this.connect, () => echoScript.run(this.connection, [], [this.echoChannel]));
  }

  of(): LockPubSubSource {
    return this;
  }

  follow(): void {
    // There is no other server.
  }

  idle(): void {
    // The next one who waits needs the connection again.
  }

  close(): void {
    this.subscriber.close();
  }
}

/** The node of a cluster that has the lock's slot tells of it: no other one lets its sharded channel be subscribed. */
export class ClusterSources implements LockPubSubSources {
  constructor(private readonly servers: Pick<ClusterTopology, 'nodeOf' | 'follow'>) {}

  of(key: string): LockPubSubSource | undefined {
    return this.servers.nodeOf(key);
  }

  follow(key: string, redirection: Redirection): void {
    this.servers.follow(key, redirection);
  }

  idle({ subscriber }: LockPubSubSource): void {
    subscriber.close();
  }

  close(): void {
    // Each connection has ended with the last who listened there.
  }
}
