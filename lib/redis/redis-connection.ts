import { afterPromiseJobs, type Clock, scheduleTimeout, withTimeout, type Timer } from '../clock/clock.js';
import { messageOf } from '../common/errors.js';
import type { KeyFilter, ServerConnection } from '../contract/server-connection.js';
import type { StoreListener } from '../contract/store.js';
import { SILENT_LIMITS } from '../contract/server-signs.js';
import { downServer, type ServerPing } from '../contract/store-ping.js';
import type { ServerClient } from './client-port.js';
import { hasClosed, isConnectTimeout, neverConnected, toError, withoutArguments } from './redis-errors.js';
import type { ScriptConnection } from './redis-script.js';

/** Receives what happens to the connections of a store. */
export interface ConnectionListener extends Pick<StoreListener, 'onReconnected' | 'onDown' | 'onUp'> {
  /** A connection ended, of all keys or of those that `concerns` selects. Its requests may never get a reply. */
  onDisconnected(concerns?: KeyFilter): void;
}

/**
 * How often a client without a connection is reported, in milliseconds. The engine takes an outage for over if it was
 * not seen for a second.
 */
export const REPORT_EVERY_MS = 250;

const RECONNECTING = 'the connection was closed, and the client reconnects';

/** What each state of a client means for its requests. */
const STATES: Readonly<Record<string, string>> = {
  wait: 'not connected yet',
  connecting: 'not connected yet, the client is connecting',
  connect: 'connected, but Redis is not ready: it may be loading its data',
  ready: 'connected, but Redis does not reply',
  close: RECONNECTING,
  reconnecting: RECONNECTING,
  disconnecting: 'the client is closing its connection',
  end: 'the connection was closed, and the client does not reconnect',
};

/** The states in which a request would wait for a connection that has failed. */
const WITHOUT_CONNECTION: readonly string[] = ['close', 'reconnecting', 'end'];

/**
 * Returns what the state of a client means for its requests.
 *
 * @param wasReady whether it has had a connection before.
 */
export function describeState(status: string, wasReady: boolean): string {
  if (status === 'connecting' && wasReady) return RECONNECTING;
  return STATES[status] ?? `no connection (${status})`;
}

/** A second connection, which has to lead to the same server as the first one. */
export interface Follower {
  /** Called if the first connection was lost. It may lead to another server when it is back. */
  reconnect(): void;
  /** Called if the first connection has ended and does not come back by itself. */
  close(): void;
}

/**
 * A store's connection: the server's clock, and which scripts the server has. Both are forgotten when the connection
 * ends, because the next one may lead to another server.
 */
export class RedisConnection implements ServerConnection, ScriptConnection {
  /** Digests of the scripts that were sent as a whole on this connection. Later runs send the digest. */
  readonly sentScripts = new Set<string>();
  /** True if the server refuses EVALSHA. */
  evalOnly = false;
  /** See {@link ScriptConnection.beforeScript}. */
  beforeScript: (() => void) | undefined;
  /** See {@link ServerConnection}. Undefined: the connection leads to the only server. */
  readonly server: string | undefined;
  /** How many open connections have ended. A request that was sent before such an end may have run twice. */
  losses = 0;
  /** See {@link ServerConnection.lostAt}. */
  lostAt = -Infinity;

  /** A reading of the server's clock, in µs since 1970, and the local moments before and after it. */
  private reading: { readonly micros: number; readonly sentAt: number; readonly readAt: number } | undefined;
  private contacting: Promise<void> | undefined;
  /** Whether the server has replied over this connection. */
  private isReached = false;
  private listener: ConnectionListener | undefined;
  private follower: Follower | undefined;
  private outageTimer: Timer | undefined;
  /** Fires if a connection that was accepted does not become ready. */
  private acceptedTimer: Timer | undefined;
  /** The last error since the connection was ready. */
  private lastError: Error | undefined;
  private wasReady = false;
  /** How many probes were answered. */
  private replies = 0;
  /** What was read when the connection was last given up. */
  private givenUpAt: number | undefined;
  /** The socket that holds back its bytes. Undefined if none does. */
  private corked: ServerClient['socket'];

  /**
   * @param sendProbe sends one cheap request. Default: TIME, which also brings the server's clock. Not every server or
   *   proxy has it.
   */
  constructor(
    readonly client: ServerClient,
    readonly clock: Clock,
    readonly requestTimeoutMs: number,
    server?: string,
    private readonly sendProbe?: () => Promise<unknown>,
  ) {
    this.server = server;
  }

  /** True while the connection is open, the server has accepted it, and it was not given up. */
  get ready(): boolean {
    return this.client.status === 'ready' && !this.isGivenUp;
  }

  /** True from a long silence on, until something is read from the server. */
  get isGivenUp(): boolean {
    return this.givenUpAt === this.received;
  }

  /**
   * Begins to report the connection's state. Returns a function that stops it. Adds nothing but listeners to the
   * client.
   */
  listen(listener: ConnectionListener, follower?: Follower): () => void {
    const { client } = this;
    this.listener = listener;
    this.follower = follower;
    const stopWatching = client.watch({
      connecting: () => this.onFirstAttempt(),
      connect: () => this.onAccepted(),
      ready: () => this.onReady(),
      close: () => this.onClose(),
      end: () => follower?.close(),
      error: (error) => this.onError(error),
    });
    if (client.status === 'ready') this.onReady();
    else if (client.status !== 'wait') this.onFirstAttempt();
    return () => {
      stopWatching();
      this.outageTimer?.cancel();
      this.acceptedTimer?.cancel();
      this.listener = undefined;
    };
  }

  // Not every client shows how much it has read. A probe always brings a reply.
  get received(): number {
    return (this.client.socket?.bytesRead ?? 0) + this.replies;
  }

  probe(): void {
    if (this.client.status === 'ready') this.contact().catch(() => undefined);
  }

  onLongSilence(): void {
    const { client } = this;
    if (client.status !== 'ready') return;
    if (client.reset !== undefined) return client.reset();
    this.givenUpAt = this.received;
    this.probe();
    this.listener?.onDown(this.whyNotReady());
  }

  /** Returns why the connection takes no requests: the last error since it was ready, or what its state means. */
  whyNotReady(): Error {
    const { lastError } = this;
    const { status } = this.client;
    // A server that is loading its data has accepted the connection after earlier errors. One that closes each
    // connection before it is ready does so again.
    const isOver = status === 'connect' && (this.hadConnection || !hasClosed(lastError));
    if (lastError !== undefined && !isOver) return this.explain(lastError);
    return this.explain(new Error(describeState(status, this.losses > 0)));
  }

  /** Sends in one packet the commands that the current code makes, so that the server reads them together. */
  cork(): void {
    const { socket } = this.client;
    if (socket === undefined || this.corked !== undefined) return;
    this.corked = socket;
    socket.cork();
    afterPromiseJobs(() => this.uncork());
  }

  /** Sends the commands that wait for others. Call it for a request that must leave before any other code runs. */
  uncork(): void {
    const { corked } = this;
    this.corked = undefined;
    corked?.uncork();
  }

  /** Returns about what the server's clock shows in µs at the local moment `at`. Undefined if it is not known. */
  microsAt(at: number): number | undefined {
    const { reading } = this;
    return reading && Math.floor(reading.micros + (at - reading.readAt) * 1_000);
  }

  /** Returns about when the server's clock has shown this time in µs, on the local clock. Undefined if not known. */
  localTimeOf(micros: number): number | undefined {
    const { reading } = this;
    return reading && reading.sentAt + (micros - reading.micros) / 1_000;
  }

  /** Waits for a reply of the server, at most until the local moment `until`. Rejects if the client does. */
  reached(until: number): Promise<void> {
    return withTimeout(this.clock, until - this.clock.now(), this.contact(), () => undefined);
  }

  /** Returns whether the server replies in time, and how long that takes. Does not reject. */
  async ping(server: string, timeoutMs = this.requestTimeoutMs): Promise<ServerPing> {
    const { clock } = this;
    const sentAt = clock.now();
    try {
      if (WITHOUT_CONNECTION.includes(this.client.status)) throw this.whyNotReady();
      await withTimeout(clock, timeoutMs, this.contact(), () => {
        throw this.ready ? new Error(`no reply within ${timeoutMs} ms`) : this.whyNotReady();
      });
      return { server, isUp: true, latencyMs: clock.now() - sentAt, error: undefined };
    } catch (error) {
      return downServer(server, messageOf(error));
    }
  }

  /** Learns the server's clock from a reply to a request that was sent at `sentAt`. */
  observeTime(micros: number, sentAt: number): void {
    this.reading = { micros, sentAt, readAt: this.clock.now() };
    this.onReply();
  }

  /**
   * Sends one cheap request for all callers. While the connection is down, it waits in the client's queue, so there is
   * only one.
   */
  private contact(): Promise<void> {
    if (this.contacting !== undefined) return this.contacting;
    const contacting = this.probeNow().finally(() => {
      if (this.contacting === contacting) this.contacting = undefined;
    });
    this.contacting = contacting;
    return contacting;
  }

  private async probeNow(): Promise<void> {
    if (this.sendProbe !== undefined) {
      await this.sendProbe();
      return this.onReply();
    }
    const sentAt = this.clock.now();
    const [seconds, micros] = (await this.client.send('time')) as [string | number, string | number];
    this.observeTime(Number(seconds) * 1e6 + Number(micros), sentAt);
  }

  private onReply(): void {
    this.isReached = true;
    this.replies += 1;
    this.listener?.onUp();
  }

  private onFirstAttempt(): void {
    if (this.outageTimer === undefined && !this.wasReady) this.startOutageTimer();
  }

  /** Replaces a connection that was accepted and brings nothing: the client would wait forever. */
  private onAccepted(): void {
    const { client } = this;
    this.acceptedTimer?.cancel();
    if (client.reset === undefined) return;
    const { received } = this;
    this.acceptedTimer = scheduleTimeout(this.clock, SILENT_LIMITS * this.requestTimeoutMs, () => {
      if (this.received === received) client.reset?.();
      else this.onAccepted();
    });
  }

  private onReady(): void {
    this.acceptedTimer?.cancel();
    const isBack = this.losses > 0 && !this.wasReady;
    this.wasReady = true;
    this.lastError = undefined;
    // Without TIME, there is nothing to learn, and a probe may need a key that the user may not read.
    if (this.sendProbe !== undefined) this.onReply();
    else this.contact().catch((error: unknown) => this.ready && this.onError(toError(error)));
    if (isBack) this.listener?.onReconnected();
  }

  private onError(error: Error): void {
    this.lastError = error;
    // A client also gives up an attempt to connect if this process was busy. The timer reports a lasting outage.
    if (!isConnectTimeout(error)) this.listener?.onDown(this.explain(error));
  }

  private onClose(): void {
    this.acceptedTimer?.cancel();
    // ioredis also emits `close` for each failed attempt to connect.
    if (!this.wasReady) return;
    this.wasReady = false;
    this.losses += 1;
    this.lostAt = this.clock.now();
    this.contacting = undefined;
    this.givenUpAt = undefined;
    this.reading = undefined;
    this.isReached = false;
    this.sentScripts.clear();
    this.evalOnly = false;
    this.startOutageTimer();
    this.follower?.reconnect();
    this.listener?.onDisconnected();
  }

  /**
   * Reports an outage if the server has not replied by then, and repeatedly until it has: while the client only waits,
   * nothing else shows that the outage continues. If the event loop stood still, the report comes later.
   */
  private startOutageTimer(delayMs = this.requestTimeoutMs): void {
    this.outageTimer?.cancel();
    this.outageTimer = scheduleTimeout(this.clock, delayMs, () => {
      if (this.isReached) return;
      this.listener?.onDown(this.whyNotReady());
      // A server that has refused the probe has replied. Each request learns why.
      if (!this.ready || this.contacting !== undefined) this.startOutageTimer(REPORT_EVERY_MS);
    });
  }

  /** Returns the error, and what it may mean if there was no connection yet. */
  private explain(error: Error): Error {
    const reason = withoutArguments(error);
    return this.hadConnection ? reason : neverConnected(reason, this.usesTls);
  }

  private get hadConnection(): boolean {
    return this.wasReady || this.losses > 0;
  }

  private get usesTls(): boolean {
    return Boolean(this.client.target.tls);
  }
}
