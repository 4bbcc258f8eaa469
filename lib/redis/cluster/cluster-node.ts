import type { Clock, Timer } from '../../core/time/clock.js';
import { DeadlineRequests, NOT_SENT } from '../deadline-requests.js';
import { VerifiedSubscriber, type SubscriberListener } from '../pubsub/verified-subscriber.js';
import type { RedisClient, RedisPipeline, RedisSubscriber } from '../redis-client.js';
import { type ClusterNodeClient, ShardedSubscriber } from './cluster-client.js';
import { RedisConnection } from '../redis-connection.js';
import type { RedisNode } from '../topology.js';
import type { PendingRequests } from '../pending-requests.js';

/** What a node tells. */
export interface NodeListener {
  disconnected(node: ClusterNode): void;
  unreachable(node: ClusterNode, error: Error): void;
  reachable(node: ClusterNode): void;
  /** It has left requests unanswered for long: its place may have been taken. */
  silent(node: ClusterNode): void;
  /** A slot that somebody listened for has gone elsewhere. */
  moved(node: ClusterNode): void;
  /** Its connection has ended; another one will be another node's. */
  ended(node: ClusterNode): void;
  subscriberOf(node: ClusterNode): SubscriberListener;
}

/** What all nodes of a cluster share. */
export interface NodeDeps {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  readonly pending: PendingRequests;
  readonly listener: NodeListener;
}

/** One node of a cluster, for as long as ioredis' connection to it lasts. */
export class ClusterNode implements RedisNode {
  readonly connection: RedisConnection;
  readonly deadlineRequests: DeadlineRequests;
  /** For sharded channels; opened when it is needed. */
  readonly subscriber: VerifiedSubscriber;
  private redirected: RedisNode | undefined;
  private unanswered = 0;
  private heardAt = -Infinity;
  private overdue: Timer | undefined;
  private readonly stopListening: () => void;

  constructor(
    readonly address: string,
    readonly client: ClusterNodeClient,
    private readonly tools: NodeDeps,
  ) {
    const { clock, requestTimeoutMs, pending, listener } = tools;
    this.connection = new RedisConnection(client, clock, requestTimeoutMs);
    this.deadlineRequests = new DeadlineRequests(this.connection, clock, pending);
    const heard = listener.subscriberOf(this);
    this.subscriber = new VerifiedSubscriber(undefined, this.connection, clock, requestTimeoutMs, heard);
    const news = {
      onDisconnected: () => listener.disconnected(this),
      onUnreachable: (error: Error) => listener.unreachable(this, error),
      onReachable: () => listener.reachable(this),
    };
    const follower = { reconnect: () => this.subscriber.reconnect(), close: () => this.close() };
    this.stopListening = this.connection.listen(news, follower);
    if (client.status === 'wait') client.connect().catch(() => undefined);
  }

  /** Unless it was told to come back by itself, the client refuses all that waits in it when its connection ends. */
  get accepting(): boolean {
    return this.client.status !== 'reconnecting';
  }

  /** The same, for what another node has sent here (`ASK`). */
  get asking(): RedisNode {
    if (this.redirected === undefined) {
      const { clock, requestTimeoutMs, pending } = this.tools;
      const connection = new RedisConnection(new AskingClient(this.client), clock, requestTimeoutMs);
      connection.evalOnly = true;
      this.redirected = {
        connection,
        deadlineRequests: new DeadlineRequests(connection, clock, pending),
        accepting: true,
      };
    }
    return this.redirected;
  }

  /**
   * Opens the connection for sharded channels, unless that was done already.
   *
   * @param kind whether plain channels will do where the node is older than Redis 7, and has no sharded ones.
   */
  subscribe(kind: 'sharded' | 'sharded or plain' = 'sharded'): void {
    this.subscriber.open((): RedisSubscriber => {
      const copy = this.client.duplicate(SUBSCRIBER);
      copy.on('moved', () => this.tools.listener.moved(this));
      return new ShardedSubscriber(copy, kind === 'sharded or plain');
    });
  }

  /** Watches over a request to this node. */
  async awaited<T>(answer: Promise<T>): Promise<T> {
    this.unanswered += 1;
    this.watch();
    try {
      const reply: unknown = await answer;
      if (reply !== NOT_SENT) this.heardAt = this.tools.clock.now();
      return reply as T;
    } finally {
      this.unanswered -= 1;
    }
  }

  /** Forgets the node; the client's connection is ioredis' own. */
  close(): void {
    this.stopListening();
    this.overdue?.cancel();
    this.overdue = undefined;
    this.unanswered = -Infinity;
    this.subscriber.close();
    this.tools.listener.ended(this);
  }

  /** A node that is stopped keeps its connection: nothing else tells that its requests should go to another one. */
  private watch(): void {
    const { clock, requestTimeoutMs, listener } = this.tools;
    if (this.overdue !== undefined) return;
    const since = clock.now();
    const look = (): void => {
      this.overdue = undefined;
      if (this.heardAt < since) listener.silent(this);
      if (this.unanswered > 0) this.watch();
    };
    this.overdue = clock.schedule(requestTimeoutMs, look, true);
  }
}

/** Unlike ioredis' connections to nodes a further one comes back by itself: it is closed with the one that asks. */
export const NODE_COPY = {
  lazyConnect: true,
  maxRetriesPerRequest: null,
  disconnectTimeout: 50,
  retryStrategy: (times: number): number => Math.min(times * 50, 2_000),
};

/** Names of sharded channels are given whole. */
const SUBSCRIBER = {
  ...NODE_COPY,
  connectionName: 'nestjs-redis-lock:hand-offs',
  keyPrefix: '',
  autoResubscribe: false,
};

/** Sends each script right behind ASKING, which counts for one command. */
class AskingClient implements RedisClient {
  constructor(private readonly client: ClusterNodeClient) {}

  get status(): string {
    return this.client.status;
  }

  async eval(script: string, keyCount: number, ...args: string[]): Promise<unknown> {
    const pipeline = this.client.pipeline();
    pipeline.asking();
    pipeline.eval(script, keyCount, ...args);
    const [error, reply] = (await pipeline.exec())?.[1] ?? [new Error('the pipeline gave no answer'), undefined];
    if (error !== null) throw error;
    return reply;
  }

  evalsha(): Promise<unknown> {
    return Promise.reject(new Error('NOSCRIPT'));
  }

  time(): Promise<unknown> {
    return this.client.time();
  }

  pipeline(): RedisPipeline {
    return this.client.pipeline();
  }

  on(): void {
    // Nobody listens: the node's own connection is watched.
  }

  off(): void {
    // As above.
  }

  listenerCount(): number {
    return 0;
  }
}
