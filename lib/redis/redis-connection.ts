import { type Clock, withTimeout, type Timer } from '../core/time/clock.js';
import type { StoreListener } from '../core/store/lock-store.js';
import type { RedisClient } from './redis-client.js';
import { toError, withoutArguments } from './redis-errors.js';
import { ServerTime } from './server-time.js';

type ConnectionListener = Pick<StoreListener, 'onDisconnected' | 'onUnreachable' | 'onReachable'>;

/** A second connection, which has to lead to where the first one leads. */
export interface Follower {
  /** The first one was lost, and may lead to another server when it is back. */
  reconnect(): void;
  /** The first one has ended, and does not come back by itself. */
  close(): void;
}

/**
 * What a store knows of its connection: the server's clock, and which scripts it has seen. Both are dropped when the
 * connection ends, because the next one may lead to another server.
 */
export class RedisConnection {
  /** Scripts that were sent whole on this connection; afterwards their digests do. */
  readonly sentScripts = new Set<string>();
  /** The server takes EVAL only. */
  evalOnly = false;

  private readonly serverTime = new ServerTime();
  private learning: Promise<void> | undefined;
  private listener: ConnectionListener | undefined;
  private follower: Follower | undefined;
  private check: Timer | undefined;
  private up = false;
  private gathering = false;

  constructor(
    readonly client: RedisClient,
    private readonly clock: Clock,
    private readonly requestTimeoutMs: number,
    /** Whether to learn the server's clock; not every server or proxy has TIME. */
    private readonly keepsTime: boolean = true,
  ) {}

  get ready(): boolean {
    return this.client.status === 'ready';
  }

  /** Begins to watch the connection; answers how to stop. Nothing but listeners is put on the client. */
  listen(listener: ConnectionListener, follower?: Follower): () => void {
    const { client } = this;
    this.listener = listener;
    this.follower = follower;
    const onReady = (): void => this.opened();
    const onClose = (): void => this.closed();
    const onEnd = (): void => follower?.close();
    const onError = (error: Error): void => this.unreachable(error);
    client.on('ready', onReady);
    client.on('close', onClose);
    client.on('end', onEnd);
    // A client without an error listener reports its errors on the console: a listener of ours would silence them.
    const hearsErrors = client.listenerCount('error') > 0;
    if (hearsErrors) client.on('error', onError);
    if (client.status === 'ready') onReady();
    else if (client.status !== 'wait') this.checkLater();
    return () => {
      client.off('ready', onReady);
      client.off('close', onClose);
      client.off('end', onEnd);
      if (hearsErrors) client.off('error', onError);
      this.check?.cancel();
      this.listener = undefined;
    };
  }

  /** Lets all that is sent until the end of this tick leave in one packet, and arrive side by side. */
  gather(): void {
    const { stream } = this.client;
    if (stream === undefined || this.gathering) return;
    this.gathering = true;
    stream.cork();
    queueMicrotask(() => {
      this.gathering = false;
      stream.uncork();
    });
  }

  /** The server's time, in µs, that is certainly not later than the local moment `at`, if it is known. */
  microsAt(at: number): number | undefined {
    const earliest = this.serverTime.serverLowerBound(at);
    return earliest === undefined ? undefined : Math.floor(earliest * 1000);
  }

  /** A local moment that is certainly not later than the server's, in µs, if its clock is known. */
  localLowerBound(serverMicros: number): number | undefined {
    return this.serverTime.localLowerBound(serverMicros / 1000);
  }

  /** Waits for the server's clock to be known; without a connection, until the local moment `until`. */
  synchronise(until: number): Promise<void> {
    return withTimeout(this.clock, until - this.clock.now(), this.learnTime(), () => undefined);
  }

  /** Takes in the server's time from a reply. */
  heard(serverMicros: number, sentAt: number): void {
    this.serverTime.learn(serverMicros / 1000, sentAt, this.clock.now());
    this.listener?.onReachable();
  }

  /** One TIME for all who want to know; while the connection is down, its command waits in the client's queue. */
  private learnTime(): Promise<void> {
    if (this.learning !== undefined) return this.learning;
    const learning = this.askTime().finally(() => {
      if (this.learning === learning) this.learning = undefined;
    });
    this.learning = learning;
    return learning;
  }

  private async askTime(): Promise<void> {
    // Sent before the connection was up, the answer's way was shorter than the wait for it: the reading is poor, and the
    // next reply improves it.
    const sentAt = this.clock.now();
    const reply = (await this.client.time()) as [string | number, string | number];
    this.heard(Number(reply[0]) * 1e6 + Number(reply[1]), sentAt);
  }

  private opened(): void {
    this.up = true;
    if (!this.keepsTime) return this.listener?.onReachable();
    this.learnTime().catch((error: unknown) => this.unreachable(toError(error)));
  }

  /** ioredis also tells of each connection that did not come about: nothing was sent over those. */
  private closed(): void {
    if (!this.up) return;
    this.up = false;
    this.learning = undefined;
    this.serverTime.forget();
    this.sentScripts.clear();
    this.evalOnly = false;
    this.checkLater();
    this.follower?.reconnect();
    this.listener?.onDisconnected();
  }

  /** A connection that is back soon is nothing to talk about. */
  private checkLater(): void {
    this.check?.cancel();
    const check = (): void => {
      if (this.keepsTime ? !this.serverTime.known : !this.ready)
        this.unreachable(new Error(`no connection (${this.client.status})`));
    };
    this.check = this.clock.schedule(this.requestTimeoutMs, check, true);
  }

  private unreachable(error: Error): void {
    this.listener?.onUnreachable(withoutArguments(error));
  }
}
