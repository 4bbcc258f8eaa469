import { describeUnsupportedForce, withPlace } from './acquire/acquire-errors.js';
import type { AcquireOptions } from './acquire/acquire-options.js';
import { Acquirer } from './acquire/acquirer.js';
import { Admission } from './acquire/admission.js';
import { Lines } from './acquire/lines.js';
import { Turns } from './acquire/turns.js';
import { keepOutside, runOutside } from './context/async-context.js';
import { describeCall, nextCall, type Target } from './events/call.js';
import { type lockChannels, LockEvents } from './events/diagnostics.js';
import { LockConfigError, LockUnavailableError, messageOf, nameCaller } from './errors.js';
import { secondsOf } from './format-value.js';
import { assertHeldAround } from './hold/assert-held.js';
import { heldAround } from './hold/held-locks.js';
import type { Lock } from './hold/lock.js';
import type { MultiLock } from './hold/multi-lock.js';
import { type LeaderCallbacks, Leadership } from './leader/leadership.js';
import type { Grant, PassingLimits } from './lease/grant.js';
import { handoffLease } from './lease/lease.js';
import { LeaseManager, type LeaseOptions } from './lease/lease-manager.js';
import { Releaser } from './lease/releaser.js';
import type { Watchdog } from './lease/watchdog.js';
import { closedError, Lifecycle } from './lifecycle.js';
import type { LocalCalls } from './state/instance-states.js';
import { callsByKey, type KeyCalls } from './state/own-calls.js';
import { newInstanceId } from './store/instance-id.js';
import type { ListedLock, ListRequest, LockState, LockStore } from './store/lock-store.js';
import type { StorePing } from './store/store-ping.js';
import { ServerSigns } from './store/server-signs.js';
import { type ServerState, StoreHealth } from './store/store-health.js';
import type { Clock } from './time/clock.js';
import { TimeoutPool } from './time/timeout-pool.js';
import { safely } from './events/warnings.js';

/** What an engine is made of. */
export interface EngineOptions extends LeaseOptions {
  readonly requestTimeoutMs: number;
  readonly store: LockStore;
  readonly clock: Clock;
  readonly passing: PassingLimits;
  /** The module instance's name, for events. */
  readonly instance: string;
  /** Where the store is, in log lines and errors. Default: not known. */
  readonly place?: string | undefined;
  /** The name of the instance in Redis. Default: none. */
  readonly identity?: string | undefined;
  /** Where events are published. Default: `lockChannels`. */
  readonly channels?: typeof lockChannels | undefined;
  /**
   * Resolves when all requests that were made until now are written to their sockets. Default: a request is written in
   * the tick that makes it.
   */
  readonly written?: (() => Promise<void>) | undefined;
  /** Called with one line when an outage or a refusal that `warn` was called with has ended. */
  info?(message: string): void;
  /** Called with one line and the error of a leader's callback. Default: `warn` is called with the line. */
  onCallbackError?(message: string, error: unknown): void;
}

/** A candidate to start. */
export interface Candidacy extends LeaderCallbacks {
  /** Names the work of the leader in the log and in events. Default: "The leader of" the resource. */
  readonly name?: string | undefined;
}

/**
 * One module instance's locks. Makes the parts and connects them: the lines acquire, the lease manager extends
 * and ends, the releaser releases. Every lock comes from here.
 */
export class LockEngine {
  /** Two instances, or two starts of one, never share an id. It contains the identity. */
  readonly instanceId: string;
  readonly store: LockStore;
  readonly clock: TimeoutPool;
  readonly releaser: Releaser;
  readonly watchdog: Watchdog;
  readonly lines: Lines;
  private readonly health: StoreHealth;
  private readonly leases: LeaseManager;
  private readonly acquirer: Acquirer;
  private readonly stopListening: () => void;
  private readonly leaderships = new Set<Leadership>();
  /** Whether callers are about to be rejected because of an outage. */
  private isRejecting = false;
  private readonly lifecycle: Lifecycle;
  private readonly warn: (this: void, message: string) => void;
  private readonly info: (this: void, message: string) => void;
  /** The methods that were not called during a shutdown. */
  private closed: Promise<void> | undefined;

  constructor(private readonly options: EngineOptions) {
    const { requestTimeoutMs, lockDelayMs, passing, instance } = options;
    keepOutside();
    this.instanceId = newInstanceId(options.identity ?? '');
    const warn = (this.warn = safely((message) => options.warn(message)));
    const info = (this.info = safely((message) => options.info?.(message)));
    const events = new LockEvents(instance, options.channels);
    const store = (this.store = options.store);
    const signs = new ServerSigns(store, requestTimeoutMs);
    const clock = (this.clock = new TimeoutPool(
      options.clock,
      requestTimeoutMs,
      store.connections && {
        onLook: (attendedMs, oldestMs) => signs.look(attendedMs, oldestMs),
        hasFailed: (key, sentAt, attendedMs) => signs.hasFailed(key, sentAt, attendedMs),
      },
    ));
    const { limitRequest } = clock;
    // After a shutdown, the application may close its own client, and nobody waits for Redis.
    const warnUsers = (message: string): void => {
      if (this.lifecycle.isOpen || this.hasCalls(Infinity)) warn(message);
    };
    const health = (this.health = new StoreHealth(
      { warn: warnUsers, info },
      () => clock.now(),
      (key) => store.serverOf?.(key),
      (server, isUp, error) => events.store(server, isUp, error),
      () => this.rejectLater(),
      options.place,
    ));
    // The next holder's callers may pass the lock on as far as ours do, because instances of one application have the
    // same options.
    const tokens = passing.maxLocalPasses + 1;
    const releaser = new Releaser(store, clock, requestTimeoutMs, tokens, lockDelayMs, health);
    this.releaser = releaser;
    // The parts that it queries are made below.
    const lifecycle = (this.lifecycle = new Lifecycle(clock, {
      hasCalls: (last) => this.hasCalls(last),
      hasHolds: () => this.watchdog.size > 0,
      refuse: () => this.lines.refuseOutsiders(),
    }));
    const onEnded = (): void => lifecycle.onEnded();
    const onReleasing = (grant: Grant, released: Promise<boolean>): void => this.onReleasing(grant, released);
    const leases = new LeaseManager(store, clock, events, { ...options, warn, onEnded, onReleasing });
    this.leases = leases;
    const watchdog = (this.watchdog = leases.watchdog);
    let attempts = 0;
    const lines = (this.lines = new Lines({
      store,
      clock,
      releaser,
      health,
      requestTimeoutMs,
      lockDelayMs,
      admission: new Admission(store),
      limitRequest,
      passing,
      turns: new Turns(clock),
      nextOwner: () => `${this.instanceId}:${++attempts}`,
      watch: (grant) => (watchdog.watch(grant) ? options.written?.() : undefined),
    }));
    this.acquirer = new Acquirer(store, lines, leases, events, lifecycle);
    this.stopListening = this.listen();
  }

  /** See {@link Acquirer.acquire}. */
  acquire(target: Target, options: AcquireOptions): Promise<Lock> {
    return this.acquirer.acquire(target, options);
  }

  /** See {@link Acquirer.acquireAll}. */
  acquireAll(targets: readonly Target[], options: AcquireOptions): Promise<MultiLock> {
    return this.acquirer.acquireAll(targets, options);
  }

  /**
   * Starts a candidate for the leadership of a resource. See {@link Leadership}.
   *
   * @param options how the candidate acquires the lock. The signal ends the leadership.
   * @throws LockConfigError if the store cannot do what the options say.
   */
  lead(target: Target, { signal, ...options }: AcquireOptions, candidacy: Candidacy): Leadership {
    this.checkLead(target, { ...options, signal });
    const leadership = new Leadership({
      ...candidacy,
      resource: target.resource,
      signal,
      clock: this.clock,
      warn: this.warn,
      // Each term is a call of its own.
      acquire: (waiting) =>
        this.acquire({ ...target, call: nextCall() }, { ...options, method: candidacy.name, signal: waiting }),
      onCallbackError: (message, error) => {
        if (this.options.onCallbackError === undefined) this.warn(message);
        else safely((line) => this.options.onCallbackError?.(line, error))(message);
      },
    });
    this.leaderships.add(leadership);
    void leadership.ended.then(() => this.leaderships.delete(leadership));
    if (this.isShuttingDown) void leadership.close();
    return leadership;
  }

  /** @throws LockConfigError if {@link lead} does. */
  checkLead(target: Target, options: AcquireOptions): void {
    this.acquirer.checkStore(target, options);
  }

  /** Closes all leaderships, so that other processes can lead. Does not wait for the end of their work. */
  stepDown(): void {
    for (const leadership of this.leaderships) void leadership.close();
  }

  /**
   * Ends all holds of a lock, of any instance. Holds of this instance end immediately.
   *
   * @param leaseMs the lease that a holder of this module has. The next holder starts with at most this lease.
   * @throws LockConfigError if the store cannot do that.
   * @throws LockUnavailableError if the store sent no usable reply within `requestTimeoutMs`.
   */
  async forceRelease({ resource, key }: Target, leaseMs: number, ifToken?: number): Promise<boolean> {
    const { store } = this;
    const refusal = describeUnsupportedForce(store, ifToken);
    if (refusal !== undefined) throw new LockConfigError(refusal, { resource });
    const { lockDelayMs, passing } = this.options;
    const handoffMs = handoffLease(leaseMs) + lockDelayMs;
    let mayBeReleased = true;
    try {
      const reply = store.forceRelease?.({ key, ifToken, handoffMs, tokens: passing.maxLocalPasses + 1 });
      const request = `The release of ${resource} by force`;
      mayBeReleased = await this.inTime(reply ?? Promise.resolve(false), { resource, key }, request);
      return mayBeReleased;
    } finally {
      // A request without a reply may have run.
      if (mayBeReleased) this.onForceReleased(key);
    }
  }

  /** Declares a grant lost, as if its lease had expired. For tests. */
  lose(grant: Grant, why: string): void {
    this.leases.lose(grant, why);
  }

  /**
   * Returns who holds the key and who waits for it. Null if nobody does either. Throws `LockUnavailableError` after
   * `requestTimeoutMs` without a reply.
   */
  inspect(target: Target): Promise<LockState | null> {
    return this.inTime(this.store.inspect(target.key), target, `The inspection of ${target.resource}`);
  }

  /**
   * Yields the locks that are held or waited for and that the request selects.
   *
   * @throws LockConfigError if the store cannot list its locks.
   */
  list(request: ListRequest): AsyncIterable<ListedLock> {
    const { store } = this;
    if (store.list !== undefined) return store.list(request);
    const { name } = store.capabilities;
    throw new LockConfigError(`list(): ${name} cannot list its locks; use a store that can, such as token().`);
  }

  /** Sends a cheap request to each server of the store. Does not reject. */
  async ping(): Promise<StorePing> {
    const ping = await this.store.ping();
    return { ...ping, degraded: ping.degraded ?? this.health.recentRefusal() };
  }

  /** Returns true if this is the id by which stores know this instance. */
  isSelf(instanceId: string): boolean {
    return instanceId === this.instanceId;
  }

  /** Returns the innermost hold around the caller, for that key or for any. */
  current(key?: string): Lock | undefined {
    return heldAround(this.leases, key);
  }

  /** See {@link assertHeldAround}. */
  assertHeld(target: Target, mode: 'exclusive' | 'shared'): Lock {
    return assertHeldAround(this.leases, target, mode);
  }

  now(): number {
    return this.clock.now();
  }

  /** Returns the calls that hold or wait for locks. */
  calls(): LocalCalls {
    return {
      holds: this.watchdog.grants().map((grant) => describeCall(grant, grant.options)),
      waiting: Array.from(this.lines.waiting(), (caller) => describeCall(caller, caller.options)),
    };
  }

  /** Returns the calls that hold or wait for locks, by key. @param only the only key of interest. */
  callsByKey(only?: string): ReadonlyMap<string, KeyCalls> {
    return callsByKey(this.watchdog.grants(), this.lines.waiting(), only);
  }

  /** See {@link Lines.waitingAt}. */
  waitingAt(key: string): number {
    return this.lines.waitingAt(key);
  }

  /** Returns the whole store, and the servers that have fallen silent. */
  servers(): readonly ServerState[] {
    return this.health.servers();
  }

  /** Whether a shutdown has begun. */
  get isShuttingDown(): boolean {
    return !this.lifecycle.isOpen;
  }

  /** Closes all leaderships. Everything else continues. */
  beginShutdown(): void {
    if (this.isShuttingDown) return;
    this.lifecycle.begin();
    this.stepDown();
  }

  /**
   * Waits for all calls that have been made so far, and for the end of their holds, at most `graceMs` milliseconds. The
   * holds that are left then are lost. Other calls are still served.
   */
  settle(graceMs: number): Promise<void> {
    this.beginShutdown();
    return this.lifecycle.settle(graceMs, (last) => {
      for (const grant of this.watchdog.grants()) if (grant.call <= last) this.loseAtShutdown(grant);
    });
  }

  /** Calls `onIdle` once nobody has used the engine for `idleMs` milliseconds. Does not keep the process alive. */
  whenIdle(idleMs: number, onIdle: () => void): void {
    this.lifecycle.whenIdle(idleMs, onIdle);
  }

  /**
   * Rejects all waiters, lets holds finish for at most `graceMs` milliseconds, and ends the remaining holds as lost.
   * The time counts from {@link settle} if that was called.
   */
  close(graceMs: number): Promise<void> {
    return (this.closed ??= this.end(graceMs));
  }

  private async end(graceMs: number): Promise<void> {
    const { lines, watchdog } = this;
    this.beginShutdown();
    await this.lifecycle.drain(graceMs);
    // Waiters come first, because the end of a grant must not let the next waiter in.
    lines.close();
    for (const grant of watchdog.grants()) this.loseAtShutdown(grant);
    await this.releaser.drain();
    watchdog.close();
    this.releaser.close();
    this.clock.close();
    this.stopListening();
  }

  /** Warns if the lock of a hold stays behind, because the application has closed the connection before its end. */
  private onReleasing({ resource, deadline, ttlMs }: Grant, released: Promise<boolean>): void {
    if (!this.isShuttingDown || this.clock.now() >= deadline) return;
    released.catch((error: unknown) => {
      const stays = secondsOf(ttlMs + this.options.lockDelayMs);
      const why = messageOf(error).replace(/\.$/, '');
      this.warn(`${resource} may stay locked for ${stays}, because its release failed during the shutdown: ${why}.`);
    });
  }

  private loseAtShutdown(grant: Grant): void {
    this.leases.lose(grant, 'the application is shutting down', closedError(grant.resource));
  }

  /** @param request what got no reply, to begin the error's message with. */
  private async inTime<T>(reply: Promise<T>, { resource, key }: Target, request: string): Promise<T> {
    try {
      return await this.clock.inTime(reply, () => {
        const late = `${request} got no reply within ${this.options.requestTimeoutMs} ms.`;
        const message = withPlace(late, this.health.placeOf(key));
        throw new LockUnavailableError(message, { resource, cause: this.health.outageOf(key) });
      });
    } catch (error) {
      nameCaller(error);
      throw error;
    }
  }

  private hasCalls(last: number): boolean {
    for (const { call } of this.watchdog.grants()) if (call <= last) return true;
    for (const { call = 0 } of this.lines.waiting()) if (call <= last) return true;
    return false;
  }

  /** Rejects the callers for whom an outage has lasted too long, after the code that noticed the outage. */
  private rejectLater(): void {
    if (this.isRejecting) return;
    this.isRejecting = true;
    runOutside(() => {
      queueMicrotask(() => {
        this.isRejecting = false;
        this.lines.onSilent();
      });
    });
  }

  private onForceReleased(key: string): void {
    // These timers and requests do not belong to the caller that released the lock.
    runOutside(() => {
      this.lines.onForceReleased(key);
      void this.leases.checkForce(key);
    });
  }

  /** Passes the store's events on. */
  private listen(): () => void {
    const { lines, watchdog, releaser, health } = this;
    const { lockDelayMs } = this.options;
    return this.store.listen({
      instanceId: this.instanceId,
      onHandoff: (handoff) => lines.onHandoff({ ...handoff, leaseMs: handoff.leaseMs - lockDelayMs }),
      onReleased: (key) => lines.onReleased(key),
      onForceReleased: (key) => this.onForceReleased(key),
      onSubscribed: (concerns) => lines.onSubscribed(concerns),
      onDisconnected: (concerns) => {
        lines.onDisconnected(concerns);
        watchdog.onDisconnected(concerns);
        releaser.onDisconnected();
      },
      onReconnected: (concerns) => {
        watchdog.renewAll(concerns);
        releaser.onReconnected();
      },
      onDegraded: this.warn,
      onRecovered: this.info,
      onExtendFailed: (key, error) => health.onFailed('extend', key, error),
      onUnreachable: (error, server) => health.onUnreachable(error, server),
      onReachable: (server) => health.onReachable(server),
    });
  }
}
