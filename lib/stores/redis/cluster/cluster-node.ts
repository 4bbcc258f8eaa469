import type { Clock, Timer } from '../../../core/clock.js';
import { DatedAsks, NOT_SENT } from '../dated-asks.js';
import { EchoedSubscriber, type SubscriberListener } from '../echoed-subscriber.js';
import type { RedisClient, RedisPipeline, RedisSubscriber } from '../redis-client.js';
import { type ClusterNodeClient, ShardSubscriber } from '../redis-cluster.js';
import { RedisConnection } from '../redis-connection.js';
import type { Server } from '../servers.js';
import type { UnsentAsks } from '../unsent-asks.js';

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
export interface NodeTools {
  readonly clock: Clock;
  readonly patienceMs: number;
  readonly unsent: UnsentAsks;
  readonly listener: NodeListener;
}

/** One node of a cluster, for as long as ioredis' connection to it lasts. */
export class ClusterNode implements Server {
  readonly connection: RedisConnection;
  readonly asks: DatedAsks;
  /** For sharded channels; opened when it is needed. */
  readonly subscriber: EchoedSubscriber;
  private redirected: Server | undefined;
  private unanswered = 0;
  private heardAt = -Infinity;
  private overdue: Timer | undefined;
  private readonly stopListening: () => void;

  constructor(
    readonly address: string,
    readonly client: ClusterNodeClient,
    private readonly tools: NodeTools,
  ) {
    const { clock, patienceMs, unsent, listener } = tools;
    this.connection = new RedisConnection(client, clock, patienceMs);
    this.asks = new DatedAsks(this.connection, clock, unsent);
    const heard = listener.subscriberOf(this);
    this.subscriber = new EchoedSubscriber(undefined, this.connection, clock, patienceMs, heard);
    const news = {
      disconnected: () => listener.disconnected(this),
      unreachable: (error: Error) => listener.unreachable(this, error),
      reachable: () => listener.reachable(this),
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
  get asking(): Server {
    if (this.redirected === undefined) {
      const { clock, patienceMs, unsent } = this.tools;
      const connection = new RedisConnection(new AskingClient(this.client), clock, patienceMs);
      connection.evalOnly = true;
      this.redirected = { connection, asks: new DatedAsks(connection, clock, unsent), accepting: true };
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
      return new ShardSubscriber(copy, kind === 'sharded or plain');
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
    const { clock, patienceMs, listener } = this.tools;
    if (this.overdue !== undefined) return;
    const since = clock.now();
    const look = (): void => {
      this.overdue = undefined;
      if (this.heardAt < since) listener.silent(this);
      if (this.unanswered > 0) this.watch();
    };
    this.overdue = clock.schedule(patienceMs, look, true);
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
