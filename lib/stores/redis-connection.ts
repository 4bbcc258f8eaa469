import { type Clock, ServerTime, type Timer } from '../core/clock.js';
import type { StoreListener } from '../core/lock-store.js';
import type { RedisClient } from './redis-client.js';

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
  private listener: StoreListener | undefined;
  private check: Timer | undefined;
  private out = false;

  constructor(
    readonly client: RedisClient,
    private readonly clock: Clock,
    private readonly patienceMs: number,
  ) {}

  /** Begins to watch the connection; answers how to stop. Nothing but listeners is put on the client. */
  listen(listener: StoreListener): () => void {
    const { client } = this;
    this.listener = listener;
    const onReady = (): void => void this.learnTime().catch(() => undefined);
    const onClose = (): void => this.closed();
    const onError = (error: Error): void => this.unreachable(error);
    client.on('ready', onReady);
    client.on('close', onClose);
    // A client without an error listener reports its errors on the console: a listener of ours would silence them.
    const hearsErrors = client.listenerCount('error') > 0;
    if (hearsErrors) client.on('error', onError);
    if (client.status === 'ready') onReady();
    else if (client.status !== 'wait') this.checkLater();
    return () => {
      client.off('ready', onReady);
      client.off('close', onClose);
      if (hearsErrors) client.off('error', onError);
      this.check?.cancel();
      this.listener = undefined;
    };
  }

  /** The server's time, in µs, that is certainly not later than the local moment `at`. Asks the server if it is not known. */
  async serverMicros(at: number): Promise<number> {
    if (!this.serverTime.known) await this.learnTime();
    // The connection may have ended since: zero is past, so that the server does nothing.
    return Math.floor((this.serverTime.earliest(at) ?? 0) * 1000);
  }

  /** The server time for `at`, if it is known already. */
  knownMicros(at: number): number | undefined {
    const earliest = this.serverTime.earliest(at);
    return earliest === undefined ? undefined : Math.floor(earliest * 1000);
  }

  /** Takes in the server's time from a reply. */
  heard(serverMicros: number, sentAt: number): void {
    this.serverTime.learn(serverMicros / 1000, sentAt, this.clock.now());
    this.reachable();
  }

  /** One TIME for all who want to know; while the connection is down, its command waits in the client's queue. */
  private learnTime(): Promise<void> {
    this.learning ??= this.askTime().finally(() => (this.learning = undefined));
    return this.learning;
  }

  private async askTime(): Promise<void> {
    // Sent before the connection was up, the answer's way was shorter than the wait for it: the reading is poor, and the
    // next reply improves it.
    const sentAt = this.clock.now();
    const reply = (await this.client.time()) as [string | number, string | number];
    this.heard(Number(reply[0]) * 1e6 + Number(reply[1]), sentAt);
  }

  private closed(): void {
    this.serverTime.forget();
    this.sentScripts.clear();
    this.evalOnly = false;
    this.checkLater();
    this.listener?.disconnected();
  }

  /** A connection that is back soon is nothing to talk about. */
  private checkLater(): void {
    this.check?.cancel();
    const check = (): void => {
      if (!this.serverTime.known) this.unreachable(new Error(`no connection (${this.client.status})`));
    };
    this.check = this.clock.schedule(this.patienceMs, check, true);
  }

  private unreachable(error: Error): void {
    if (this.out) return;
    this.out = true;
    this.listener?.unreachable(error);
  }

  private reachable(): void {
    if (!this.out) return;
    this.out = false;
    this.listener?.reachable();
  }
}
