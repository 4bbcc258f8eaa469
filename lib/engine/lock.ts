import { inspect, type InspectOptions } from 'node:util';
import { LockConfigError, LockLostError, LockUnavailableError, withoutStack } from '../common/errors.js';
import type { LockCallContext } from '../events/tracing.js';
import { inspectFields } from '../common/inspect-fields.js';
import { driftOf } from '../clock/clock.js';
import type { LockMode } from '../contract/store.js';
import { describeUndetachable, upgradeError } from './error-texts.js';
import { endOf, type Hold, WorkDone } from './hold.js';
import type { Lease } from './lease.js';
import type { AcquireOptions, HoldOptions } from './options.js';
import type { Parts } from './lock-engine.js';
import { newTicket, readTicket } from './ticket.js';

/**
 * The options of `Lock.detach()`.
 *
 * @publicApi
 */
export interface DetachOptions {
  /**
   * How long the lock lives on without a renewal, in milliseconds. `LockService.extend()` sets this lease again.
   * Default: the lease of the lock.
   *
   * @minimum 50
   */
  readonly ttlMs?: number | undefined;
}

/**
 * One hold of a lock, from the grant until `release()` or until the lock is lost. Created by `LockService`.
 *
 * Until `signal` aborts or `assertHeld()` throws, no other caller is granted the lock, provided that Redis kept its
 * data and its clock ran at the normal pace. A process that was paused may notice a loss late. If a late write would do
 * harm, pass `fencingToken` to the resource, which must refuse lower tokens. Use a fence with exclusive locks only.
 *
 * @publicApi
 */
export class Lock implements Hold {
  /** The caller's own lock, if this is a nested hold of it. Otherwise this lock. @internal */
  readonly root: Lock;
  /** The fencing token. Undefined if the store gives none. @internal */
  readonly token: number | undefined;
  /** The local moment at which the lock ends, however often it is renewed (`maxHoldMs`). @internal */
  readonly limit: number;
  /** The key stays closed until this moment, even if the work ends sooner. @internal */
  minHoldUntil: number;
  /** The key stays closed until this moment, because the work is done. 0: it is not. Only the root's is used. */
  private doneUntil = 0;
  /** The lease of renewals. `extend(ttlMs)` changes it. @internal */
  ttlMs: number;
  /** When the lock is reported as held for too long. @internal */
  warnAt: number;
  /** Whether it was acquired together with others. @internal */
  isOfSeveral = false;
  /** Whether no event has reported the grant, so that none reports the end. @internal */
  isUnseen = false;
  /** Why the deadline has passed without a renewal, as found when that was first noticed. @internal */
  whyOver: string | undefined = undefined;
  /** What subscribers of traces know the call by. Undefined if there were no subscribers at the grant. @internal */
  trace: LockCallContext | undefined = undefined;
  /** This hold and the nested ones that have not ended. Only the root's list is used. */
  private readonly holds: Lock[] = [];
  /** How many callers were given a hold. Those of lock scopes do not count. Only the root's number is used. */
  private callers = 0;
  private lostBecause: LockLostError | undefined = undefined;
  private hasEnded = false;
  private ending: Promise<boolean> | undefined = undefined;
  private controller: AbortController | undefined = undefined;
  private abortReason: unknown;

  /** @internal */
  constructor(
    /** @internal */ readonly lease: Lease,
    /** The resource that the caller named, `goods:300`. */
    readonly resource: string,
    /** @internal */ readonly options: HoldOptions,
    /** @internal */ readonly grantedAt: number,
    /** The number of the call, for events. @internal */
    readonly call: number = 0,
    root?: Lock,
    /** Whether only a lock scope has this hold. @internal */
    readonly isKept = false,
  ) {
    this.root = root ?? this;
    this.token = root === undefined ? lease.token : root.token;
    this.ttlMs = options.ttlMs;
    this.limit = grantedAt + options.maxHoldMs;
    this.minHoldUntil = grantedAt + options.minHoldMs;
    this.warnAt = options.warnHeldMs ? grantedAt + options.warnHeldMs : Infinity;
    this.root.holds.push(this);
    if (!isKept) this.root.callers += 1;
    this.abortReason = this.loss;
  }

  /** The Redis key of the resource, `{lock_goods}:300`. */
  get key(): string {
    return this.lease.key;
  }

  /**
   * A number that is higher than the token of every earlier grant of this key. Nested holds share one token. Holders
   * that share a lock, or have one of its permits, may have the same token if they are in one module instance.
   *
   * @throws LockConfigError if the store gives no tokens.
   */
  get fencingToken(): number {
    if (this.token !== undefined) return this.token;
    throw new LockConfigError(
      'The store of this lock gives no fencing tokens: token(), quorum([…]), memory() and ' +
        'redisson({ fencing: true }) do.',
      { resource: this.resource },
    );
  }

  /**
   * Aborts with a `LockLostError` as soon as the lock is known to be lost. Aborts with an `AbortError` if the client of
   * the handler is gone, after a timeout or a disconnect.
   */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  /** The time until the local deadline without a renewal, in milliseconds. 0 once the hold has ended. */
  get expiresInMs(): number {
    return this.held ? Math.max(0, this.root.deadline - this.parts.clock.now()) : 0;
  }

  /** Returns what logs show of the lock. `expiresInMs` is in whole milliseconds. */
  toJSON(): object {
    const { resource, key, token: fencingToken, expiresInMs } = this;
    return { resource, key, fencingToken, expiresInMs: Math.floor(expiresInMs) };
  }

  /** Shows the fields of {@link toJSON}. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `Lock ${inspectFields(this.toJSON(), options)}`;
  }

  /**
   * Checks the lock against its local deadline, without a request to Redis. Call it right before a step that needs the
   * lock.
   *
   * This call reads no replies. Work that has blocked the event loop may have outlasted the last known lease. The call
   * then declares the lock lost, although a renewal may be unread in the socket buffer. So await something first.
   *
   * @throws LockLostError if the lock is lost, its lease has expired, or it was released.
   */
  assertHeld(): void {
    if (this.held && this.parts.clock.now() >= this.root.deadline) this.lease.queue.expire(this.root);
    this.throwUnlessHeld();
  }

  /**
   * Gives the lock a new lease, counted from now. Later renewals keep this length. Never shortens the current lease.
   *
   * @param ttlMs the new lease in milliseconds. Default: the length of the current one.
   * @throws LockLostError if the lock is lost.
   * @throws LockUnavailableError if the store sent no reply. The lock is still held until its local deadline.
   * @throws LockConfigError if `ttlMs` is not allowed.
   */
  async extend(ttlMs: number = this.root.ttlMs): Promise<void> {
    await this.expire();
    this.throwUnlessHeld();
    const { parts, root, resource } = this;
    parts.checkLease('extend()', { ttlMs });
    root.ttlMs = ttlMs;
    const reply = await parts.renewer.extend(root);
    if (root.loss !== undefined) throw root.loss;
    if (reply === 'renewed') return;
    const message = `The lease of ${resource} could not be extended: the store did not confirm it.`;
    throw new LockUnavailableError(message, { resource });
  }

  /**
   * Ends this hold. The lock is released with the last nested hold, or at the end of `minHoldMs`, which this method
   * does not wait for. A second call returns the result of the first. After `detach()` it does nothing.
   *
   * @returns false if the lock was lost or detached, as far as this instance knows. While other callers of this
   * instance share the lock, the store is not queried.
   * @throws LockUnavailableError if the store sent no reply. The release is repeated in the background until the store
   * replies or the lease expires.
   */
  release(): Promise<boolean> {
    return this.end();
  }

  /**
   * Ends this hold, and keeps the lock for callers with the returned ticket, in any process. The lock keeps its
   * fencing token, and lives on for `ttlMs`. `LockService.extend()` renews it, `LockService.resume()` makes it a hold
   * again, and `LockService.release()` releases it.
   *
   * The ticket is a secret, because it is enough to have the lock. Put it into a body or a cookie, never into a URL or
   * a log.
   *
   * Without a reply, the request is repeated until the lease is over.
   *
   * @returns the ticket, a string of letters, digits, `-` and `_`.
   * @throws LockLostError if the lock is lost.
   * @throws LockUnavailableError if the store sent no reply until the lease was over. The lock is then released.
   * @throws LockConfigError if an option is not allowed, or if the store cannot keep a lock for a ticket. Thrown for a
   * lock that is shared, belongs to a multi-lock, has `minHoldMs`, or is also held by a nested hold, a lock scope, a
   * handler with `@Locked` or a leader. The lock is still held then.
   */
  async detach(options: DetachOptions = {}): Promise<string> {
    const { parts, resource } = this;
    const { ttlMs = this.root.ttlMs } = parts.checkLease('detach()', options);
    await this.expire();
    this.throwUnlessHeld();
    const refusal = describeUndetachable(parts.link.store, this);
    if (refusal !== undefined) throw new LockConfigError(`detach(): ${refusal}.`, { resource });
    const ticket = newTicket(ttlMs);
    this.root.holds.length = 0;
    this.ending = Promise.resolve(false);
    const restMs = this.limit === Infinity ? undefined : this.limit - parts.clock.now();
    const heir = { owner: readTicket(ticket, resource).owner, leaseMs: ttlMs, token: this.token, restMs };
    if (await this.lease.queue.detach(this, heir)) return ticket;
    throw new LockLostError(`The lock on ${resource} was lost before it was detached.`, { resource });
  }

  /** Releases the lock at the end of an `await using` block. Ignores a store that sends no reply. */
  async [Symbol.asyncDispose](): Promise<void> {
    await endOf(this);
  }

  // What the engine uses.

  /** @internal */
  get parts(): Parts {
    return this.lease.queue.parts;
  }

  /** @internal */
  get mode(): LockMode {
    return this.lease.mode;
  }

  /** The local moment at which the lock is lost without a renewal. @internal */
  get deadline(): number {
    return Math.min(this.lease.deadline, this.limit);
  }

  /** Returns the lease to request at `now`: `ttlMs`, but no longer than `maxHoldMs` allows. @internal */
  wantedLeaseMs(now: number): number {
    return Math.min(this.ttlMs, Math.ceil(this.limit - now + driftOf(this.ttlMs)));
  }

  /** Why the lock was lost. Undefined if it was not. @internal */
  get loss(): LockLostError | undefined {
    return this.root.lostBecause;
  }

  /** How many holds of the lock there are, with those of lock scopes. @internal */
  get holdCount(): number {
    return this.root.holds.length;
  }

  /** True until this hold ends, by `release()` or by loss. @internal */
  get held(): boolean {
    return this.ending === undefined && !this.root.hasEnded;
  }

  /** True until all holds have ended. @internal */
  get isAlive(): boolean {
    return !this.root.hasEnded;
  }

  /** @internal */
  get locks(): readonly Lock[] {
    return [this];
  }

  /** See {@link Hold.awaitsRelease}. @internal */
  get awaitsRelease(): boolean {
    return this.options.awaitRelease !== false;
  }

  /** See {@link Hold.isOver}. @internal */
  get isOver(): boolean {
    return !this.held;
  }

  /** See {@link Hold.find}. @internal */
  find(parts: Parts, key?: string): Lock | undefined {
    return this.parts === parts && (key === undefined || key === this.key) && this.held ? this : undefined;
  }

  /** See {@link Hold.expire}. @internal */
  expire(): Promise<void> | undefined {
    return this.held ? this.lease.queue.expireUnlessRenewed(this.root) : undefined;
  }

  /** Whether the work is done for now. The last hold then closes the key. @internal */
  get isDone(): boolean {
    return this.parts.clock.now() < this.root.doneUntil;
  }

  /** Records that work under the lock ended without an error, and is done for `onceMs` from the grant. @internal */
  markDone(onceMs: number): void {
    this.root.doneUntil = this.root.grantedAt + onceMs;
  }

  /** Forgets that the work was done, because work around it failed. @internal */
  unmarkDone(): void {
    this.root.doneUntil = 0;
  }

  /** Removes the lock from its lease, which may keep the key closed. @internal */
  leave(lease: Lease): void {
    const { minHoldUntil, doneUntil } = this;
    lease.remove(this, Math.max(minHoldUntil, doneUntil), doneUntil > minHoldUntil);
  }

  /**
   * Returns a nested hold. The lock ends with the last of its holds.
   *
   * @throws LockReentryError if the lock does not cover the requested mode.
   * @throws LockLostError if the lock was lost.
   * @throws WorkDone if the work of a call with `onceMs` was done under the lock.
   * @internal
   */
  nest(options: AcquireOptions): Lock {
    this.assertHeld();
    const { mode, resource } = this;
    if (mode !== 'exclusive' && mode !== options.mode) throw upgradeError(resource, mode, options.mode);
    if (options.onceMs !== undefined && this.isDone) throw withoutStack(() => new WorkDone());
    const { root } = this;
    if (options.minHoldMs > 0)
      root.minHoldUntil = Math.max(root.minHoldUntil, this.parts.clock.now() + options.minHoldMs);
    return new Lock(this.lease, this.resource, options, root.grantedAt, this.call, root);
  }

  /** Returns another hold of the same lock. See `MultiLock.map()`. @internal */
  map(other: (lock: Lock) => Lock): Lock {
    return other(this);
  }

  /**
   * Ends a hold under which no work has begun, without `minHoldMs` and without the holds of lock scopes, unless another
   * caller was also given the lock.
   *
   * @internal
   */
  discard(): Promise<boolean> {
    const { root } = this;
    if (root.callers <= 1) {
      root.minHoldUntil = root.grantedAt;
      for (const hold of Array.from(root.holds)) hold.unused();
    }
    return this.release();
  }

  /** Called if the only caller of the lock does not use it. */
  protected unused(): void {
    // Only a hold of a lock scope ends then.
  }

  /** Ends this hold, and the lock with its last hold. */
  protected end(): Promise<boolean> {
    if (this.ending === undefined) {
      const { root } = this;
      root.holds.splice(root.holds.indexOf(this), 1);
      const isLast = root.holds.length === 0 && root.isAlive;
      this.ending = isLast ? this.lease.queue.release(root) : Promise.resolve(root.isAlive);
    }
    return this.ending;
  }

  /** Called when the last hold has ended, or with the reason when the lock is lost. Aborts no signal. @internal */
  onEnded(loss?: LockLostError): void {
    this.hasEnded = true;
    this.lostBecause = loss;
  }

  /** Aborts the signals of all holds of a lost lock, which runs the callers' code. @internal */
  abortAll(loss: LockLostError): void {
    for (const hold of Array.from(this.root.holds)) hold.onLost(loss);
  }

  /** Called when the lock was lost. */
  protected onLost(loss: LockLostError): void {
    this.abort(loss);
  }

  /** Calls a listener when the signal aborts, or immediately if it has. @internal */
  onAbort(listener: (reason: unknown) => void): void {
    const { signal } = this;
    if (signal.aborted) return listener(signal.reason);
    signal.addEventListener('abort', () => listener(signal.reason), { once: true });
  }

  /** Aborts the signal. The lock stays held. @internal */
  abort(reason: unknown): void {
    this.abortReason ??= reason;
    this.controller?.abort(reason);
  }

  private throwUnlessHeld(): void {
    if (this.held) return;
    throw this.loss ?? new LockLostError(`The lock on ${this.resource} was released.`, { resource: this.resource });
  }
}
