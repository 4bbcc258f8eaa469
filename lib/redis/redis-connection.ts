import { afterPromiseJobs, type Clock, scheduleTimeout, withTimeout, type Timer } from '../clock/clock.js';
import type { KeyFilter, ServerConnection } from '../contract/server-connection.js';
import { SILENT_LIMITS } from '../contract/server-signs.js';
import { inOnePacket, type ServerClient } from './client-port.js';
import { describeState, NO_HANDSHAKE, REPORT_EVERY_MS } from './connection-state.js';
import { hasClosed, isConnectTimeout, neverConnected, toError, withoutArguments } from './redis-errors.js';
import type { ScriptConnection } from './redis-script.js';
import { ServerTime } from './server-time.js';

/** Receives what happens to the connections of a store. */
export interface ConnectionListener {
  /** A connection ended, of all keys or of those that `concerns` selects. Its requests may never get a reply. */
  onDisconnected(concerns?: KeyFilter): void;
  /** A connection that had ended is back. It may lead to another server, or to one that has lost locks. */
  onReconnected(concerns?: KeyFilter): void;
  /** A server, or the whole store, cannot be reached. May be reported repeatedly. */
  onUnreachable(error: Error, server?: string): void;
  /** A server, or the whole store, replies again. */
  onReachable(server?: string): void;
}

/** A timer that fires more than this many milliseconds late shows that the event loop stood still. */
const LATE_MS = 100;

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

  private readonly serverTime = new ServerTime();
  private learning: Promise<void> | undefined;
  private reaching: Promise<void> | undefined;
  private listener: ConnectionListener | undefined;
  private follower: Follower | undefined;
  private outageTimer: Timer | undefined;
  /** Fires if a connection that was accepted does not become ready. */
  private acceptedTimer: Timer | undefined;
  /** The last error since the connection was ready. */
  private lastError: Error | undefined;
  private wasReady = false;
  /** How many replies have brought the server's time. */
  private replies = 0;
  /** The socket that holds back its bytes. Undefined if none does. */
  private corked: ServerClient['socket'];

  constructor(
    readonly client: ServerClient,
    readonly clock: Clock,
    readonly requestTimeoutMs: number,
    /** Whether to learn the server's clock. Not every server or proxy has TIME. */
    private readonly usesServerTime: boolean = true,
    server?: string,
  ) {
    this.server = server;
  }

  /** True while the connection is open and the server has accepted it. */
  get ready(): boolean {
    return this.client.status === 'ready';
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
    if (this.ready) this.learnTime().catch(() => undefined);
  }

  reset(): void {
    if (this.ready) this.client.reset?.();
  }

  /** Returns why the connection takes no requests: the last error since it was ready, or what its state means. */
  whyNotReady(): Error {
    const { lastError } = this;
    const { status } = this.client;
    // A server that is loading its data has accepted the connection after earlier errors. One that closes each
    // connection before it is ready does so again.
    const isOver = status === 'connect' && (this.hadConnection || !hasClosed(lastError));
    if (lastError !== undefined && !isOver) return this.explain(lastError);
    return this.explain(new Error(this.isInHandshake ? NO_HANDSHAKE : describeState(status, this.losses > 0)));
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

  /** Sends in one packet what a function requests, after the commands that wait for others. */
  together<T>(request: () => T): T {
    this.uncork();
    return inOnePacket(this.client, request);
  }

  /**
   * Returns a server time in µs that is certainly not later than the local moment `at`. Undefined if it is not known.
   */
  microsAt(at: number): number | undefined {
    const lowerBound = this.serverTime.serverLowerBound(at);
    return lowerBound === undefined ? undefined : Math.floor(lowerBound * 1000);
  }

  /** Returns a local moment that is certainly not later than this server time in µs. Undefined if it is not known. */
  localLowerBound(serverMicros: number): number | undefined {
    return this.serverTime.localLowerBound(serverMicros / 1000);
  }

  /** Waits until requests can be sent, however long that takes. Rejects if the client does not reconnect. */
  reached(): Promise<void> {
    const { client } = this;
    if (this.ready) return Promise.resolve();
    if (client.status === 'end') return Promise.reject(this.whyNotReady());
    this.reaching ??= new Promise<void>((resolve) => {
      const stop = client.watch({
        ready: () => {
          this.reaching = undefined;
          stop();
          resolve();
        },
      });
      if (client.status === 'wait') client.connect();
    });
    return this.reaching;
  }

  /** Waits until the server's clock is known, or until the local moment `until`. */
  synchronise(until: number): Promise<void> {
    return withTimeout(this.clock, until - this.clock.now(), this.learnTime(), () => undefined);
  }

  /** Learns the server's clock from a reply to a request that was sent at `sentAt`. */
  observeTime(serverMicros: number, sentAt: number): void {
    const now = this.clock.now();
    this.serverTime.learn(serverMicros / 1000, sentAt, now);
    this.replies += 1;
    this.listener?.onReachable();
  }

  /** Sends one TIME for all callers. While the connection is down, the command waits in the client's queue. */
  private learnTime(): Promise<void> {
    if (this.learning !== undefined) return this.learning;
    const learning = this.readTime().finally(() => {
      if (this.learning === learning) this.learning = undefined;
    });
    this.learning = learning;
    return learning;
  }

  private async readTime(): Promise<void> {
    // If the connection is not ready yet, this includes the wait for it. The next reply improves the reading.
    const sentAt = this.clock.now();
    const reply = (await this.client.send('time')) as [string | number, string | number];
    this.observeTime(Number(reply[0]) * 1e6 + Number(reply[1]), sentAt);
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
    if (this.usesServerTime) this.learnTime().catch((error: unknown) => this.ready && this.onError(toError(error)));
    else this.listener?.onReachable();
    if (isBack) this.listener?.onReconnected();
  }

  private onError(error: Error): void {
    this.lastError = error;
    // A client also gives up an attempt to connect if this process was busy. The timer reports a lasting outage.
    if (!isConnectTimeout(error)) this.listener?.onUnreachable(this.explain(error));
  }

  private onClose(): void {
    this.acceptedTimer?.cancel();
    // ioredis also emits `close` for each failed attempt to connect.
    if (!this.wasReady) return;
    this.wasReady = false;
    this.losses += 1;
    this.lostAt = this.clock.now();
    this.learning = undefined;
    this.serverTime.forget();
    this.sentScripts.clear();
    this.evalOnly = false;
    this.startOutageTimer();
    this.follower?.reconnect();
    this.listener?.onDisconnected();
  }

  /**
   * Reports an outage if the connection is not back within `requestTimeoutMs`, and then repeatedly until it is: while
   * the client only waits, nothing else shows that the outage continues. The time in which the event loop stood still
   * does not count, because the connection may be back and its events were not read.
   *
   * @param restMs how long the connection may still need.
   */
  private startOutageTimer(restMs = this.requestTimeoutMs): void {
    this.outageTimer?.cancel();
    const stepMs = Math.min(restMs, REPORT_EVERY_MS);
    const dueAt = this.clock.now() + stepMs;
    const look = (): void => {
      if (this.usesServerTime ? this.serverTime.known : this.ready) return;
      const isLate = this.clock.now() - dueAt > LATE_MS;
      const leftMs = isLate ? restMs : restMs - stepMs;
      if (leftMs > 0) return this.startOutageTimer(leftMs);
      this.listener?.onUnreachable(this.whyNotReady());
      // A server that has refused TIME has replied. Each request learns why.
      if (!this.ready || this.learning !== undefined) this.startOutageTimer(REPORT_EVERY_MS);
    };
    this.outageTimer = this.clock.schedule(stepMs, look, true);
  }

  /** Returns the error, and what it may mean if there was no connection yet. */
  private explain(error: Error): Error {
    const reason = withoutArguments(error);
    return this.hadConnection ? reason : neverConnected(reason, this.usesTls);
  }

  /** Whether the server has accepted a connection, and waits for the end of its TLS handshake. */
  private get isInHandshake(): boolean {
    const { status, socket } = this.client;
    // A client that hides its socket does not show whether the server has accepted it.
    return this.usesTls && status === 'connecting' && (socket === undefined || socket.remoteAddress !== undefined);
  }

  private get hadConnection(): boolean {
    return this.wasReady || this.losses > 0;
  }

  private get usesTls(): boolean {
    return Boolean(this.client.target.tls);
  }
}
