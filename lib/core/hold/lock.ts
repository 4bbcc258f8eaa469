import type { Grant } from '../lease/grant.js';
import { LockConfigError, LockLostError } from '../errors.js';

/** What a lock needs of the engine that gave it. */
export interface LockKeeper {
  now(): number;
  /** Ends a grant whose last hold has ended. */
  release(grant: Grant): Promise<boolean>;
  extend(grant: Grant, ttlMs: number): Promise<void>;
  /** Ends a grant whose local deadline has passed before the watchdog got to it. */
  expire(grant: Grant): void;
}

/** What work runs under: one lock, or several that were taken together. */
export interface Hold {
  readonly locks: readonly Lock[];
  /** Why it was lost, if it was. */
  readonly loss: LockLostError | undefined;
  /** Declares it lost if its deadline has passed unnoticed. */
  noticeExpiry(): void;
  /** Tells the work that nobody waits for it any more. */
  abort(reason: unknown): void;
  release(): Promise<boolean>;
}

/**
 * One hold of a lock: from the grant until `release()`, or until the lock is lost. Comes from `LockService`.
 *
 * What it promises: until `signal` aborts or `assertHeld()` throws, no other holder was given the lock by a Redis that
 * kept its data and its pace. What it cannot promise: that a process which was paused notices in time. Where a late
 * write would do harm, give `fencingToken` to the resource and let it refuse older ones, if the lock is held alone.
 *
 * @publicApi
 */
export class Lock implements Hold {
  private controller: AbortController | undefined;
  private abortReason: unknown;
  private ending: Promise<boolean> | undefined;

  /** @internal */
  constructor(
    private readonly grant: Grant,
    private readonly keeper: LockKeeper,
  ) {
    grant.join(this);
    this.abortReason = grant.loss;
  }

  /** What was asked for, `goods:300`. */
  get resource(): string {
    return this.grant.resource;
  }

  /** The Redis key that is locked, `{lock_goods}:300`. */
  get key(): string {
    return this.grant.key;
  }

  /**
   * A number that is higher than that of every earlier grant of this key. Nested holds share one.
   *
   * @throws LockConfigError where the store gives none.
   */
  get fencingToken(): number {
    if (this.grant.token !== undefined) return this.grant.token;
    throw new LockConfigError(
      'The store of this lock gives no fencing tokens: token(), quorum([…]) and redisson({ fencing: true }) do.',
      { resource: this.resource },
    );
  }

  /**
   * Aborts with a `LockLostError` as soon as the lock is known to be lost, and with an `AbortError` when the caller the
   * work was done for has gone away (a timeout interceptor, a closed connection).
   */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  /** How long this hold can still be believed in without a renewal, in milliseconds; 0 once it has ended. */
  get expiresInMs(): number {
    return this.held ? Math.max(0, this.grant.deadline - this.keeper.now()) : 0;
  }

  /** @internal */
  get locks(): readonly Lock[] {
    return [this];
  }

  /** No work will begin under it: `minHoldMs` is for work that did. @internal */
  skipMinHold(): void {
    if (this.grant.holds === 1) this.grant.skipMinHold();
  }

  /** Whether this hold is over, by `release()` or by loss. @internal */
  get held(): boolean {
    return this.ending === undefined && this.grant.state === 'held';
  }

  /** Whether it came from that engine. @internal */
  isKeptBy(keeper: LockKeeper): boolean {
    return this.keeper === keeper;
  }

  /** The grant that nested holds share. @internal */
  get shared(): Grant {
    return this.grant;
  }

  /** Why the lock was lost, if it was. @internal */
  get loss(): LockLostError | undefined {
    return this.grant.loss;
  }

  /**
   * Checks against the local deadline, without asking Redis: call it right before what must not happen without the
   * lock.
   *
   * @throws LockLostError if the lock is lost, its lease has run out, or it was released already.
   */
  assertHeld(): void {
    this.noticeExpiry();
    if (this.held) return;
    throw (
      this.grant.loss ?? new LockLostError(`The lock on ${this.resource} was released.`, { resource: this.resource })
    );
  }

  /**
   * Takes a new lease, counted from now; later renewals keep its length. A lease is never made shorter.
   *
   * @param ttlMs the new lease in milliseconds; the present one by default.
   * @throws LockLostError if the lock is not ours any more.
   * @throws LockUnavailableError if the store gave no answer: the lock is held still, until its deadline.
   * @throws LockConfigError if `ttlMs` is not a lease.
   */
  async extend(ttlMs: number = this.grant.ttlMs): Promise<void> {
    this.assertHeld();
    await this.keeper.extend(this.grant, ttlMs);
  }

  /**
   * Ends this hold. The lock is freed with the last nested one, or at the end of `minHoldMs`, for which this does not
   * wait. Calling it again answers as the first time.
   *
   * @returns false if the lock was lost already.
   * @throws LockUnavailableError if the store gave no answer within `requestTimeoutMs`, and at once if there is no
   * connection to it, as during a failover. The release is repeated in the background until it is answered or the lease
   * is over.
   */
  release(): Promise<boolean> {
    if (this.ending === undefined) {
      const last = this.grant.part(this);
      this.ending = last ? this.keeper.release(this.grant) : Promise.resolve(this.grant.state === 'held');
      // Who does not wait for the answer must not end the process by not having caught it.
      this.ending.catch(() => undefined);
    }
    return this.ending;
  }

  /** Releases, so that `await using lock = await locks.acquire(…)` does; keeps quiet where the store gave no answer. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** Declares the lock lost if its deadline has passed without the watchdog having got to it. @internal */
  noticeExpiry(): void {
    if (this.held && this.keeper.now() >= this.grant.deadline) this.keeper.expire(this.grant);
  }

  /** @internal */
  lost(error: LockLostError): void {
    this.abort(error);
  }

  /** Tells the work that nobody waits for it any more; the lock stays held. @internal */
  abort(reason: unknown): void {
    this.abortReason ??= reason;
    this.controller?.abort(reason);
  }
}
