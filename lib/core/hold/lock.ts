import { inspect, type InspectOptions } from 'node:util';
import type { Grant } from '../lease/grant.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import { LockConfigError, LockLostError } from '../errors.js';
import { inspectFields } from '../inspect-fields.js';

/** How a caller uses its hold. */
export interface HoldUse {
  /** Whether the end of the work waits for the reply to the release. Default: true. */
  readonly awaitRelease?: boolean;
}

/** What work runs under: one lock, or several that were acquired together. */
export interface Hold {
  readonly locks: readonly Lock[];
  /** Whether the end of the work waits for the replies to the releases. */
  readonly awaitsRelease: boolean;
  /** Why one of the locks was lost. Undefined if none was lost. */
  readonly loss: LockLostError | undefined;
  /** Whether all locks have ended. */
  readonly isOver: boolean;
  /**
   * Declares locks lost if their deadlines have passed. First reads the replies that have arrived, because locks may
   * have been renewed while work blocked the event loop. Returns undefined if there is nothing to wait for.
   */
  expire(): Promise<void> | undefined;
  /** Aborts the signal. The locks stay held. */
  abort(reason: unknown): void;
  /** Returns a lock of that engine and key that has not ended. Without a key, the first lock of that engine. */
  find(leases: LeaseManager, key?: string): Lock | undefined;
  /** Ends all holds. A lock scope does not reject. The others may reject if the store sends no reply. */
  release(): Promise<unknown>;
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
  /** The grant, which nested holds have in common. @internal */
  readonly grant: Grant;
  /** See {@link Hold.awaitsRelease}. @internal */
  readonly awaitsRelease: boolean;
  private controller: AbortController | undefined;
  private abortReason: unknown;
  private ending: Promise<boolean> | undefined;

  /** @internal */
  constructor(
    grant: Grant,
    /** @internal */
    readonly leases: LeaseManager,
    { awaitRelease = true }: HoldUse = {},
  ) {
    this.grant = grant;
    this.awaitsRelease = awaitRelease;
    grant.join(this);
    this.abortReason = grant.loss;
  }

  /** The resource that the caller named, `goods:300`. */
  get resource(): string {
    return this.grant.resource;
  }

  /** The Redis key of the resource, `{lock_goods}:300`. */
  get key(): string {
    return this.grant.key;
  }

  /**
   * A number that is higher than the token of every earlier grant of this key. Nested holds share one token. Holders
   * that share a lock, or have one of its permits, may have the same token if they are in one module instance.
   *
   * @throws LockConfigError if the store gives no tokens.
   */
  get fencingToken(): number {
    if (this.grant.token !== undefined) return this.grant.token;
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
    return this.held ? Math.max(0, this.grant.deadline - this.leases.now()) : 0;
  }

  /** Returns what logs show of the lock. `expiresInMs` is in whole milliseconds. */
  toJSON(): object {
    const { resource, key, grant, expiresInMs } = this;
    return { resource, key, fencingToken: grant.token, expiresInMs: Math.floor(expiresInMs) };
  }

  /** Shows the fields of {@link toJSON}. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `Lock ${inspectFields(this.toJSON(), options)}`;
  }

  /** @internal */
  get locks(): readonly Lock[] {
    return [this];
  }

  /** Returns another hold of the same lock. See `MultiLock.map()`. @internal */
  map(other: (lock: Lock) => Lock): Lock {
    return other(this);
  }

  /** Whether only a lock scope has this hold. @internal */
  get isKept(): boolean {
    return false;
  }

  /** Ends a hold under which no work has begun. See {@link Grant.discard}. @internal */
  discard(): Promise<boolean> {
    this.grant.discard();
    return this.release();
  }

  /** True until this hold ends, by `release()` or by loss. @internal */
  get held(): boolean {
    return this.ending === undefined && this.grant.state === 'held';
  }

  /** See {@link Hold.find}. @internal */
  find(leases: LeaseManager, key?: string): Lock | undefined {
    const fits = this.leases === leases && (key === undefined || key === this.key);
    return fits && this.held ? this : undefined;
  }

  /** See {@link Hold.isOver}. @internal */
  get isOver(): boolean {
    return !this.held;
  }

  /** Why the lock was lost. Undefined if it was not. @internal */
  get loss(): LockLostError | undefined {
    return this.grant.loss;
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
    this.leases.expire(this.grant);
    this.throwUnlessHeld();
  }

  private throwUnlessHeld(): void {
    if (this.held) return;
    throw (
      this.grant.loss ?? new LockLostError(`The lock on ${this.resource} was released.`, { resource: this.resource })
    );
  }

  /**
   * Gives the lock a new lease, counted from now. Later renewals keep this length. Never shortens the current lease.
   *
   * @param ttlMs the new lease in milliseconds. Default: the length of the current one.
   * @throws LockLostError if the lock is lost.
   * @throws LockUnavailableError if the store sent no reply. The lock is still held until its local deadline.
   * @throws LockConfigError if `ttlMs` is not allowed.
   */
  async extend(ttlMs: number = this.grant.ttlMs): Promise<void> {
    const expiry = this.expire();
    if (expiry !== undefined) await expiry;
    this.throwUnlessHeld();
    await this.leases.extend(this.grant, ttlMs);
  }

  /**
   * Ends this hold. The lock is released with the last nested hold, or at the end of `minHoldMs`, which this method
   * does not wait for. A second call returns the result of the first.
   *
   * @returns false if the lock was lost, as far as this instance knows. While other callers of this instance share the
   * lock, the store is not queried.
   * @throws LockUnavailableError if the store sent no reply within 1 s, or immediately if there is no connection. The
   * release is repeated in the background until the store replies or the lease expires.
   */
  release(): Promise<boolean> {
    if (this.ending === undefined) {
      const last = this.grant.part(this);
      this.ending = last ? this.leases.release(this.grant) : Promise.resolve(this.grant.state === 'held');
    }
    return this.ending;
  }

  /** Releases the lock at the end of an `await using` block. Ignores a store that sends no reply. */
  async [Symbol.asyncDispose](): Promise<void> {
    await endOf(this);
  }

  /** See {@link Hold.expire}. @internal */
  expire(): Promise<void> | undefined {
    return this.held ? this.leases.expireUnlessRenewed(this.grant) : undefined;
  }

  /** Calls a listener when the signal aborts, or immediately if it has. @internal */
  onAbort(listener: (reason: unknown) => void): void {
    const { signal } = this;
    if (signal.aborted) return listener(signal.reason);
    signal.addEventListener('abort', () => listener(signal.reason), { once: true });
  }

  /** @internal */
  lost(error: LockLostError): void {
    this.abort(error);
  }

  /** Aborts the signal. The lock stays held. @internal */
  abort(reason: unknown): void {
    this.abortReason ??= reason;
    this.controller?.abort(reason);
  }
}

/** See {@link Hold.expire}. */
export function expireAll(locks: readonly Lock[]): Promise<void> | undefined {
  const waits = locks.map((lock) => lock.expire()).filter((wait) => wait !== undefined);
  return waits.length === 0 ? undefined : Promise.all(waits).then(() => undefined);
}

/**
 * Releases a hold after its work. Ignores a store that sends no reply, because the releaser repeats the release.
 * Returns undefined if the end of the work does not wait for the reply.
 */
export function endOf(hold: Hold): Promise<unknown> | undefined {
  const { awaitsRelease } = hold;
  const released = hold.release().catch(() => undefined);
  return awaitsRelease ? released : undefined;
}
