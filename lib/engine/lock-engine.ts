import { throwIfAborted } from '../common/abort-signals.js';
import { keepOutside, runOutside } from '../common/async-context.js';
import { LockConfigError, LockReentryError, LockUnavailableError, nameCaller, withoutStack } from '../common/errors.js';
import { type CallDetails, describeCall, latestCall, type Target } from '../events/call.js';
import { type lockChannels, LockEvents } from '../events/diagnostics.js';
import { safely, type Warn } from '../events/warnings.js';
import type { LocalCalls, ServerState } from '../events/instance-states.js';
import { newInstanceId } from '../contract/instance-id.js';
import { atEndOfTick, type Clock, type Timer, withTimeout } from '../clock/clock.js';
import {
  type ListedLock,
  type ListRequest,
  type LockState,
  type LockStore,
  type StorePing,
  UnansweredError,
} from '../contract/store.js';
import { assertHeldAround, heldAround } from './call-context.js';
import { WorkDone } from './hold.js';
import { KeyQueue } from './key-queue.js';
import { type Candidacy, Leadership } from './leadership.js';
import { handoffLease } from './lease.js';
import { closedError, Lifecycle } from './lifecycle.js';
import { Link } from './link.js';
import type { DetachOptions, Lock } from './lock.js';
import { scopeAround } from './lock-scope.js';
import { MultiAcquire } from './multi-acquire.js';
import type { MultiLock } from './multi-lock.js';
import { type AcquireOptions, leaseOf, type PassingLimits } from './options.js';
import { describeUnsupported, describeUnsupportedForce, withPlace } from './error-texts.js';
import { Releaser } from './releaser.js';
import { Renewer } from './renewer.js';
import { StoreHealth } from './store-health.js';
import { Tickets } from './tickets.js';
import { Turns } from './turns.js';
import { Waiter } from './waiter.js';

/** How many callers are refused in one turn of the event loop before others wait for the next one. */
const MOST_REFUSALS_IN_TURN = 1_000;

/** What an engine is made of. */
export interface EngineOptions {
  readonly store: LockStore;
  readonly clock: Clock;
  /** How long a server may be silent, in milliseconds. */
  readonly requestTimeoutMs: number;
  readonly passing: PassingLimits;
  /** By how much the store keeps a lock longer than its holder relies on it, in milliseconds. */
  readonly lockDelayMs: number;
  /** The module instance's name, for events. */
  readonly instance: string;
  /** Where the store is, in log lines and errors. Default: not known. */
  readonly place?: string | undefined;
  /** The name of the instance in Redis. Default: none. */
  readonly identity?: string | undefined;
  /** Where events are published. Default: `lockChannels`. */
  readonly channels?: typeof lockChannels | undefined;
  /** Returns the options of a method that are given. Throws `LockConfigError` if one is not allowed. */
  readonly checkLease: (method: 'extend()' | 'detach()', given: DetachOptions) => DetachOptions;
  /** Called with one line for each lost lock, for each lock that is held too long, and for each outage. */
  warn(message: string): void;
  /** Called with one line when an outage or a limitation has ended. */
  info(message: string): void;
  /** Called with one line and the error of a leader's callback. */
  onCallbackError(message: string, error: unknown): void;
}

/** What the parts of one engine share. Each engine has one such object, which identifies its locks. */
export interface Parts extends Pick<EngineOptions, 'clock' | 'passing' | 'lockDelayMs' | 'checkLease'> {
  /** The id by which stores know this engine. */
  readonly instanceId: string;
  readonly link: Link;
  readonly renewer: Renewer;
  readonly releaser: Releaser;
  readonly turns: Turns;
  readonly events: LockEvents;
  /** Logs one line. Never throws. */
  readonly warn: Warn;
  /** Returns an owner that no other attempt has. */
  nextOwner(): string;
  /** Called when a key is no longer in use. */
  forget(queue: KeyQueue): void;
  /** Called when a wait or a hold has ended. A shutdown waits for that. */
  onEnded(this: void): void;
}

/** One module instance's locks. Every lock comes from here. */
export class LockEngine {
  /** By key. A key that is not in use has none. */
  private readonly queues = new Map<string, KeyQueue>();
  private readonly lifecycle: Lifecycle;
  private readonly health: StoreHealth;
  /** Detached locks. */
  readonly tickets: Tickets;
  private readonly parts: Parts;
  private readonly leaderships = new Set<Leadership>();
  private readonly info: Warn;
  private attempts = 0;
  private isRefusing = false;
  private refusalsInTurn = 0;
  private idleTimer: Timer | undefined = undefined;
  /** When the holds of a shutdown are lost. */
  private graceEndsAt: number | undefined = undefined;
  private settled: Promise<void> | undefined = undefined;
  private closed: Promise<void> | undefined = undefined;

  constructor(private readonly options: EngineOptions) {
    const { clock, instance, passing, store, requestTimeoutMs, lockDelayMs } = options;
    keepOutside();
    const warn = safely((message) => options.warn(message));
    const info = (this.info = safely((message) => options.info(message)));
    // After a shutdown, the application may close its own client, and nobody waits for Redis.
    const warnUsers = (message: string): void => {
      if (!this.isShuttingDown || this.hasCalls(Infinity)) warn(message);
    };
    this.lifecycle = new Lifecycle(clock);
    const onEnded = (): void => this.lifecycle.onEnded();
    // The application may have closed the connection before. At other times, the release is repeated.
    const onLeft = (message: string): void => {
      if (this.isShuttingDown) warn(message);
    };
    const events = new LockEvents(instance, options.channels);
    this.health = new StoreHealth(
      { warn: warnUsers, info },
      () => clock.now(),
      (key) => store.serverOf(key),
      (server, isUp, error) => events.store(server, isUp, error),
      () => this.refuseLater(),
      options.place,
    );
    const instanceId = newInstanceId(options.identity ?? '');
    const link = new Link(store, this.health, requestTimeoutMs, lockDelayMs);
    this.parts = {
      instanceId,
      clock,
      link,
      renewer: new Renewer(link, clock, { warn, events }),
      releaser: new Releaser(link, clock, onLeft, onEnded),
      turns: new Turns(clock, store),
      events,
      passing,
      lockDelayMs,
      nextOwner: () => `${instanceId}:${++this.attempts}`,
      warn,
      checkLease: options.checkLease,
      forget: (queue) => {
        // A caller may have come again since the queue ended.
        if (this.queues.get(queue.key) === queue) this.queues.delete(queue.key);
        onEnded();
      },
      onEnded,
    };
    this.tickets = new Tickets(this.parts, this);
    this.listen();
  }

  get instanceId(): string {
    return this.parts.instanceId;
  }

  get store(): LockStore {
    return this.options.store;
  }

  /** Waits for the lock, or joins the hold that the caller runs in. */
  acquire(target: Target, options: AcquireOptions): Promise<Lock> {
    try {
      throwIfAborted(options.signal);
      this.checkStore(target, options);
      const outer = heldAround(this.parts, target.key);
      if (outer !== undefined) return Promise.resolve(this.nest(outer, options));
      return this.acquireNew(target, options);
    } catch (error) {
      return this.rejectInTurn(error);
    }
  }

  /**
   * Waits for several locks, with one `waitMs` for all, or joins the holds that the caller runs in. Releases all of
   * them if one cannot be acquired, or is lost before the last is acquired.
   */
  async acquireAll(targets: readonly Target[], options: AcquireOptions): Promise<MultiLock> {
    throwIfAborted(options.signal);
    this.checkStore(targets[0], options);
    return new MultiAcquire(this, this.parts, options).run(targets);
  }

  /**
   * Starts a candidate for the leadership of a resource. See {@link Leadership}.
   *
   * @param options how the candidate acquires the lock. The signal ends the leadership.
   * @throws LockConfigError if the store cannot do what the options say.
   */
  lead(target: Target, options: AcquireOptions, candidacy: Candidacy): Leadership {
    this.checkStore(target, options);
    const leadership = new Leadership(this, target, options, candidacy);
    this.leaderships.add(leadership);
    void leadership.ended.then(() => this.leaderships.delete(leadership));
    if (this.isShuttingDown) void leadership.close();
    return leadership;
  }

  /**
   * Ends all holds of a lock, of any instance. Holders learn of it no later than at their next renewal.
   *
   * @param leaseMs the lease that a holder of this module has. The next holder starts with at most this lease.
   * @throws LockConfigError if the store cannot do that.
   * @throws LockUnavailableError if the store sent no usable reply in time.
   */
  async forceRelease({ resource, key }: Target, leaseMs: number, ifToken?: number): Promise<boolean> {
    const { store } = this;
    const refusal = describeUnsupportedForce(store, ifToken);
    if (refusal !== undefined) throw new LockConfigError(refusal, { resource });
    const handoffMs = this.parts.link.delayed(handoffLease(leaseMs));
    let mayBeReleased = true;
    try {
      const reply = store.forceRelease?.({ key, ifToken, handoffMs }) ?? Promise.resolve(false);
      mayBeReleased = await this.inTime(reply, { resource, key }, `The release of ${resource} by force`);
      return mayBeReleased;
    } finally {
      // A request without a reply may have run.
      if (mayBeReleased) runOutside(() => this.queues.get(key)?.onForced());
    }
  }

  /** Declares a lock lost, as if its lease had expired. For tests. */
  lose(lock: Lock, why: string): void {
    lock.lease.queue.lose(lock.root, why);
  }

  /**
   * Returns who holds the key and who waits for it. Null if nobody does either.
   *
   * @throws LockUnavailableError if the store sent no reply in time.
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

  /** Returns the innermost hold around the caller, for that key or for any. */
  current(key?: string): Lock | undefined {
    return heldAround(this.parts, key);
  }

  /** See {@link assertHeldAround}. */
  assertHeld(target: Target, mode: 'exclusive' | 'shared'): Lock {
    return assertHeldAround(this.parts, target, mode);
  }

  get clock(): Clock {
    return this.parts.clock;
  }

  now(): number {
    return this.parts.clock.now();
  }

  /** Logs one line. Never throws. */
  get warn(): Warn {
    return this.parts.warn;
  }

  /** Logs one line about what a leader's callback has thrown. Never throws. */
  onCallbackError(message: string, error: unknown): void {
    safely((line) => this.options.onCallbackError(line, error))(message);
  }

  /** Returns the callers' locks. */
  holds(): readonly Lock[] {
    return this.parts.renewer.locks();
  }

  /** Returns the callers that wait, of one key or of all. */
  waiting(key?: string): readonly Waiter[] {
    if (key !== undefined) return this.queues.get(key)?.waiters.all() ?? [];
    return [...this.queues.values()].flatMap(({ waiters }) => waiters.all());
  }

  /** Returns the calls that hold or wait for locks. */
  calls(): LocalCalls {
    return {
      holds: this.holds().map((lock) => describeCall(lock, lock.options)),
      waiting: this.waiting().map(({ target, options }) => describeCall(target, options)),
    };
  }

  /**
   * Returns the calls of this instance behind what the store lists for a key: the oldest caller of each grant, and the
   * callers that wait for others.
   */
  callsAt(key: string): { readonly holders: readonly CallDetails[]; readonly waiting: readonly CallDetails[] } {
    const queue = this.queues.get(key);
    const holders = queue?.leases.flatMap(({ locks: [oldest] }) => oldest?.options ?? []) ?? [];
    // A call with a `waitMs` of 0 has no place in a queue.
    const waiting = this.waiting(key).filter(({ isPatient }) => isPatient);
    return { holders, waiting: waiting.map(({ options }) => options) };
  }

  /** Returns how many callers wait for a key. */
  waitingAt(key: string): number {
    return this.queues.get(key)?.waiters.length ?? 0;
  }

  /** Returns the whole store, and the servers that have fallen silent. */
  servers(): readonly ServerState[] {
    return this.health.servers();
  }

  /** Whether a shutdown has begun. */
  get isShuttingDown(): boolean {
    return this.lifecycle.phase !== 'open';
  }

  /**
   * Closes all leaderships, so that other processes can lead, without waiting for the end of their work. Everything
   * else continues.
   */
  beginShutdown(): void {
    if (this.isShuttingDown) return;
    this.lifecycle.phase = 'stopping';
    for (const leadership of this.leaderships) void leadership.close();
  }

  /**
   * Waits for all calls that have been made so far, and for the end of their holds, at most `graceMs` milliseconds. The
   * holds that are left then are lost. Other calls are still served.
   */
  settle(graceMs: number): Promise<void> {
    this.beginShutdown();
    return (this.settled ??= this.settleCalls(latestCall(), graceMs));
  }

  private async settleCalls(last: number, graceMs: number): Promise<void> {
    const { lifecycle } = this;
    this.graceEndsAt = this.now() + graceMs;
    // Once the draining has begun, only its end counts.
    const isOver = (): boolean =>
      lifecycle.phase === 'closed' || (lifecycle.phase === 'stopping' && !this.hasCalls(last));
    await lifecycle.until(isOver, graceMs);
    if (lifecycle.phase !== 'stopping') return;
    for (const lock of this.holds()) if (lock.call <= last) this.loseAtShutdown(lock);
  }

  /**
   * Calls `onIdle` once no lock was held, waited for or requested for `idleMs` milliseconds. Does not keep the process
   * alive.
   */
  whenIdle(idleMs: number, onIdle: () => void): void {
    const { lifecycle } = this;
    // Not by the number of the latest call, which another application of the process may have made.
    lifecycle.isUsed = false;
    const look = (): void => {
      if (lifecycle.isUsed || this.hasCalls(Infinity)) this.whenIdle(idleMs, onIdle);
      else onIdle();
    };
    this.idleTimer = this.clock.schedule(idleMs, look, true);
  }

  /**
   * Refuses all waiters, lets holds finish for at most `graceMs` milliseconds, and ends the remaining holds as lost.
   * The time counts from {@link settle} if that was called. Then closes the store.
   */
  close(graceMs: number): Promise<void> {
    return (this.closed ??= this.end(graceMs));
  }

  private async end(graceMs: number): Promise<void> {
    const { lifecycle, options, parts, tickets } = this;
    const { releaser, renewer } = parts;
    this.beginShutdown();
    await this.drain(graceMs);
    lifecycle.phase = 'closed';
    // A call of `settle` may wait for that.
    lifecycle.onEnded();
    // Waiters come first, because the end of a hold must not let the next waiter in.
    this.forEachQueue((queue) => queue.refuseAll(false));
    for (const lock of this.holds()) this.loseAtShutdown(lock);
    const isIdle = (): boolean => this.queues.size === 0 && tickets.resuming.size === 0 && releaser.isIdle;
    await lifecycle.until(isIdle, options.requestTimeoutMs);
    // Nobody waits for the replies that are left.
    this.forEachQueue((queue) => queue.abandon());
    await lifecycle.until(isIdle, 0);
    renewer.close();
    releaser.close();
    await this.store.close();
  }

  /** Refuses all callers that do not run in a hold, and waits for the holds. */
  private async drain(graceMs: number): Promise<void> {
    const { lifecycle } = this;
    const now = this.now();
    this.idleTimer?.cancel();
    lifecycle.phase = 'draining';
    this.forEachQueue((queue) => queue.refuseAll(true));
    await lifecycle.until(() => this.holds().length === 0, Math.max(0, (this.graceEndsAt ?? now + graceMs) - now));
  }

  private loseAtShutdown(lock: Lock): void {
    lock.lease.queue.lose(lock, 'the application is shutting down', closedError(lock.resource));
  }

  private acquireNew(target: Target, options: AcquireOptions): Promise<Lock> {
    const { events } = this.parts;
    const startedAt = this.now();
    this.checkOpen(target);
    events.requested(target, options);
    return this.enqueue(target, options, startedAt).then(
      (lock) => {
        this.publishGrant(lock, target, options, startedAt);
        return lock;
      },
      (reason: unknown) => {
        nameCaller(reason, options.signal);
        // The caller gets no error.
        const isDone = reason instanceof WorkDone;
        const [shown, outcome] = isDone ? ([undefined, 'done'] as const) : ([reason] as const);
        events.refused(target, options, this.now() - startedAt, shown, outcome);
        this.lifecycle.onEnded();
        return this.rejectInTurn(reason);
      },
    );
  }

  /**
   * Waits for the lock in the queue of its key.
   *
   * @param enteredAt when the caller began to wait: earlier than `now` if it has waited for other locks.
   */
  enqueue(target: Target, options: AcquireOptions, now: number, enteredAt = now): Promise<Lock> {
    try {
      const isNested = this.checkOpen(target);
      const refusal = this.queues.get(target.key)?.review.refusalAtOnce(target, options, now);
      if (refusal !== undefined) return Promise.reject(refusal);
      const waiter = new Waiter(target, options, enteredAt, isNested, scopeAround());
      // The signal's own code runs here, and may end or begin other calls.
      waiter.listen();
      this.queueOf(target.key).join(waiter, now);
      return waiter.result;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Rejects with a reason. Lets the event loop turn if a loop of callers is refused at once, over and over. */
  async rejectInTurn(reason: unknown): Promise<never> {
    if (this.refusalsInTurn === 0) atEndOfTick(() => (this.refusalsInTurn = 0));
    this.refusalsInTurn += 1;
    if (this.refusalsInTurn > MOST_REFUSALS_IN_TURN) await new Promise<void>((resolve) => atEndOfTick(resolve));
    throw reason;
  }

  /** Returns the queue of a key, which is in use from now on. For {@link Tickets}. */
  queueOf(key: string): KeyQueue {
    let queue = this.queues.get(key);
    if (queue === undefined) this.queues.set(key, (queue = new KeyQueue(key, this.parts)));
    return queue;
  }

  /** Returns a nested hold, which the scopes around the caller keep. */
  nest(outer: Lock, options: AcquireOptions): Lock {
    const lock = outer.nest(options);
    scopeAround()?.keep(lock, options.onLost);
    return lock;
  }

  /**
   * Returns whether the caller runs in a hold of this engine.
   *
   * @throws LockClosedError if a shutdown no longer admits the caller.
   */
  checkOpen({ resource }: Target): boolean {
    const isNested = heldAround(this.parts) !== undefined;
    this.lifecycle.checkOpen(resource, isNested);
    return isNested;
  }

  /** Reports the end of a wait that was reported as requested. */
  publishGrant(lock: Lock, target: Target, options: AcquireOptions, startedAt: number): void {
    const { events } = this.parts;
    if (lock.root === lock) return events.granted(lock, target, lock.grantedAt - startedAt);
    const { resource } = target;
    const message = `${resource} was granted to another request of the caller's lock scope.`;
    const reason = withoutStack(() => new LockReentryError(message, { resource }));
    events.refused(target, options, this.now() - startedAt, reason, 'nested');
  }

  /** @throws LockConfigError if the store does not support the mode, the lease or `onceMs`. */
  checkStore({ resource }: Target, options: AcquireOptions): void {
    const { mode, onceMs } = options;
    const refusal = describeUnsupported(this.store.capabilities, { mode, onceMs, leaseMs: leaseOf(options) });
    if (refusal !== undefined) throw new LockConfigError(`${refusal}.`, { resource });
  }

  private hasCalls(last: number): boolean {
    const isOne = ({ call = 0 }: { readonly call?: number }): boolean => call <= last;
    if (this.holds().some(isOne) || this.waiting().some(({ target }) => isOne(target))) return true;
    return [...this.tickets.resuming.values()].some(isOne);
  }

  /** Refuses the callers for whom an outage has lasted too long, after the code that noticed the outage. */
  private refuseLater(): void {
    if (this.isRefusing) return;
    this.isRefusing = true;
    runOutside(() => {
      queueMicrotask(() => {
        this.isRefusing = false;
        const now = this.now();
        this.forEachQueue((queue) => queue.review.refuseIfUnavailable(now));
      });
    });
  }

  /** Calls a function for each queue, even if it ends queues. */
  private forEachQueue(call: (queue: KeyQueue) => void): void {
    for (const queue of Array.from(this.queues.values())) call(queue);
  }

  /**
   * Returns a reply.
   *
   * @param request what gets the reply, to begin the error's message with.
   * @throws LockUnavailableError if it does not come in time.
   */
  async inTime<T>(reply: Promise<T>, { resource, key }: Target, request: string): Promise<T> {
    const { requestTimeoutMs } = this.options;
    const late = (): never => {
      const message = withPlace(`${request} got no reply within ${requestTimeoutMs} ms.`, this.health.placeOf(key));
      throw new LockUnavailableError(message, { resource, cause: this.health.outageOf(key) });
    };
    try {
      return await withTimeout(this.clock, requestTimeoutMs, reply, late);
    } catch (error) {
      if (error instanceof UnansweredError) late();
      nameCaller(error);
      throw error;
    }
  }

  /** Whether this is an owner of this engine that is over. Any client may send a message with any owner and key. */
  private isOver(owner: string): boolean {
    const { instanceId } = this;
    const wasIssued = owner.startsWith(`${instanceId}:`) && Number(owner.slice(instanceId.length + 1)) <= this.attempts;
    return (
      wasIssued && !this.tickets.resuming.has(owner) && ![...this.queues.values()].some((queue) => queue.isOf(owner))
    );
  }

  /** No message grants anything: it only makes an owner ask, renew or release again. */
  private listen(): void {
    const { instanceId, renewer, releaser, warn } = this.parts;
    this.store.listen({
      instanceId,
      onWake: (owner, key, mode) => {
        if (this.queues.get(key)?.onWake(owner) === true) return;
        if (this.isOver(owner)) releaser.releaseAgain(owner, key, mode);
      },
      onReleased: (key) => this.queues.get(key)?.onReleased(),
      onSubscribed: (concerns) =>
        this.forEachQueue((queue) => {
          if (concerns?.(queue.key) !== false) queue.askAgain();
        }),
      onDown: (error, server) => this.health.onUnreachable(error, server),
      onUp: (server) => this.health.onReachable(server),
      onReconnected: (concerns) => {
        releaser.onReconnected();
        renewer.renewAll(concerns);
      },
      onExtendFailed: (key, error) => this.health.onFailed('extend', key, error),
      onDegraded: warn,
      onRecovered: this.info,
    });
  }
}
