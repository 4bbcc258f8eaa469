import { inspect, type InspectOptions } from 'node:util';
import { aFunction, checkOptions, checkValue, oneOf } from '../checks/check-options.js';
import { LockLostError } from '../errors.js';
import { inspectFields } from '../inspect-fields.js';
import type { Grant } from '../lease/grant.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import { innermostScope, runInHold } from './held-locks.js';
import { expireAll, type Hold, Lock } from './lock.js';
import type { MultiLock } from './multi-lock.js';
import { type OnLost, settle } from './run-under.js';

/**
 * The options of a lock scope.
 *
 * @publicApi
 */
export interface LockScopeOptions {
  /**
   * What happens if a lock that the scope keeps is lost before the scope ends. `throw`: the scope rejects with
   * `LockLostError`. `ignore`: the scope settles as its work does. A lock that was acquired only with
   * `onLost: 'ignore'` does not count in either case.
   *
   * @default 'throw'
   */
  readonly onLost?: OnLost | undefined;
}

/**
 * A running lock scope.
 *
 * @publicApi
 */
export interface LockScope {
  /**
   * Aborts with a `LockLostError` as soon as a lock that the scope keeps is known to be lost. Aborts with an
   * `AbortError` if the client of the handler is gone, after a timeout or a disconnect.
   */
  readonly signal: AbortSignal;
  /**
   * Checks all locks that the scope keeps, and those of the scopes around it, without a request to Redis. Call it right
   * before a step that needs the locks, such as a commit.
   *
   * @throws LockLostError if one is lost, or was lost before, or if the scope has ended. A lock that was acquired only
   * with `onLost: 'ignore'` does not count.
   */
  assertHeld(): void;
}

type Work<T> = (scope: LockScope) => T | Promise<T>;

const NONE: ReadonlySet<never> = new Set();

const OPTION_RULES = { onLost: oneOf('throw', 'ignore') };

/**
 * Runs `fn` in a lock scope: every lock that is acquired inside is kept until `fn` has settled, even if its own hold
 * (`using`, `@Locked`, `release()` or `await using`) ends earlier. The locks are renewed until `fn` has settled, and
 * then released, even if `fn` fails. This is strict two-phase locking. Put the scope around a transaction, so that
 * other holders read what the transaction has committed.
 *
 * The scope keeps the locks of every `LockService` of the process. Inside, acquiring a lock that the scope keeps
 * returns a nested hold without a request.
 *
 * Parallel branches of one scope do not exclude each other: each gets a nested hold.
 *
 * Locks that are acquired in an inner scope are kept until the outermost scope around them has ended. Work that is
 * started inside and not awaited is in the scope until the scope ends, and then acquires locks like any other caller.
 *
 * Two scopes that acquire the same locks in different orders wait for each other until `waitMs` has elapsed. Acquire
 * the locks in one order, or together as a list.
 *
 * @returns the result of `fn`. An error of `fn` is thrown unchanged.
 * @throws {LockLostError} if a lock was lost before the scope ended, unless `onLost` is `ignore`. Its `cause` is the
 * error of `fn`, if there is one.
 * @throws {LockConfigError} if `fn` is not a function, or an option is not allowed.
 *
 * @publicApi
 */
export function runInLockScope<T>(fn: Work<T>): Promise<T>;
export function runInLockScope<T>(options: LockScopeOptions | undefined, fn: Work<T>): Promise<T>;
export async function runInLockScope<T>(...args: [Work<T>] | [LockScopeOptions | undefined, Work<T>]): Promise<T> {
  const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
  checkValue('the lock scope', 'the work', fn, aFunction);
  const { onLost } = options === undefined ? {} : checkScopeOptions(options, 'the options of a lock scope');
  const scope = new ScopeHold(onLost);
  let result: T;
  try {
    result = await scope.run(() => fn(scope));
  } catch (error) {
    await scope.end(error);
    throw error;
  }
  await scope.end();
  return result;
}

/**
 * Returns the options of a lock scope that are not undefined.
 *
 * @throws LockConfigError that names the option, what was given and what is allowed.
 */
export function checkScopeOptions(given: LockScopeOptions, place: string): LockScopeOptions {
  return checkOptions<LockScopeOptions>(place, given, OPTION_RULES);
}

/** Returns the innermost open scope that the caller runs in. */
export function scopeAround(): ScopeHold | undefined {
  let scope = innermostScope() as ScopeHold | undefined;
  while (scope !== undefined && !scope.isOpen) scope = scope.parent;
  return scope;
}

/** How a caller uses a lock that a scope keeps. */
export interface KeptUse {
  readonly onLost?: OnLost | undefined;
  /** Whether the end of the scope waits for the reply to the release. Default: true. */
  readonly awaitRelease?: boolean;
}

/** A lock that a scope keeps. */
class KeptLock extends Lock {
  /** Whether the scope continues if the lock is lost, because no caller relies on it. */
  isExpendable: boolean;

  constructor(
    grant: Grant,
    leases: LeaseManager,
    private readonly scope: ScopeHold,
    use: KeptUse,
  ) {
    super(grant, leases, { awaitRelease: use.awaitRelease });
    this.isExpendable = use.onLost === 'ignore';
  }

  override get isKept(): boolean {
    return true;
  }

  /** Does nothing, because the scope ends this hold. Callers get it from `LockService.current()` or `@CurrentLock`. */
  override release(): Promise<boolean> {
    return Promise.resolve(this.held);
  }

  override lost(error: LockLostError): void {
    super.lost(error);
    this.scope.onKeptLost(this, error);
  }

  unused(): void {
    this.scope.drop(this);
    void this.endKept();
  }

  endKept(): Promise<boolean> {
    return super.release();
  }
}

/** The locks that a scope keeps, and the requests that are made in it. */
export class ScopeHold implements Hold, LockScope {
  /** The scope around this one. It may end earlier. */
  readonly parent = scopeAround();
  loss: LockLostError | undefined;
  private open = true;
  private readonly kept = new Map<Grant, KeptLock>();
  private readonly byKey = new Map<LeaseManager, Map<string, KeptLock>>();
  /** By key. */
  private readonly requests = new Map<string, Set<ScopedRequest>>();
  private readonly children = new Set<ScopeHold>();
  /** Made when the signal is first read, because the scopes of nearly all handlers need none. */
  private controller: AbortController | undefined;
  private abortReason: unknown;

  constructor(private readonly onLost: OnLost = 'throw') {
    this.parent?.children.add(this);
    this.abortReason = this.parent?.abortReason;
  }

  get isOpen(): boolean {
    return this.open;
  }

  get isOver(): boolean {
    return !this.open && this.kept.size === 0;
  }

  /** Runs `fn`, and everything that it starts, in the scope. Returns what `fn` returns. */
  run<T>(fn: () => T): T {
    return runInHold(this, fn, this);
  }

  get locks(): readonly Lock[] {
    return [...this.kept.values()];
  }

  get awaitsRelease(): boolean {
    return this.locks.some((lock) => lock.awaitsRelease);
  }

  /** See {@link LockScope.signal}. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.abortReason !== undefined) this.controller.abort(this.abortReason);
    }
    return this.controller.signal;
  }

  /** See {@link LockScope.assertHeld}. */
  assertHeld(): void {
    if (!this.open) throw new LockLostError('The lock scope has ended, and its locks were released.');
    for (const lock of this.kept.values()) if (!lock.isExpendable) lock.assertHeld();
    if (this.loss !== undefined) throw this.loss;
    if (this.parent?.open) this.parent.assertHeld();
  }

  /** Returns what logs show of the scope: the resources of the locks that it keeps. */
  toJSON(): object {
    return { resources: this.locks.map(({ resource }) => resource), isOpen: this.open };
  }

  /** Shows the fields of {@link toJSON}. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `LockScope ${inspectFields(this.toJSON(), options)}`;
  }

  find(leases: LeaseManager, key?: string): Lock | undefined {
    const locks = this.byKey.get(leases);
    if (key !== undefined) return locks?.get(key)?.find(leases, key);
    for (const lock of locks?.values() ?? []) if (lock.held) return lock;
    return undefined;
  }

  /** Keeps a caller's grant in this scope and in the open scopes around it. */
  keep(grant: Grant, leases: LeaseManager, onLost: OnLost | undefined): void {
    for (const scope of this.outwards()) scope.keepHere(grant, leases, { onLost });
  }

  /** Keeps, in this scope only, locks that a caller was given outside of it. */
  keepAll({ locks }: Hold, use: KeptUse): void {
    for (const { grant, leases } of locks) this.keepHere(grant, leases, use);
  }

  /** Returns the scope's own hold of locks that it keeps. It ends with the scope, whatever its caller does. */
  ownHoldOf(hold: Lock | MultiLock): Lock | MultiLock {
    return hold.map((lock) => this.kept.get(lock.grant) ?? lock);
  }

  private keepHere(grant: Grant, leases: LeaseManager, use: KeptUse): void {
    if (!this.open) return;
    const isExpendable = use.onLost === 'ignore';
    const known = this.kept.get(grant);
    if (known !== undefined) {
      known.isExpendable &&= isExpendable;
      return;
    }
    if (grant.loss !== undefined && !isExpendable) this.onLoss(grant.loss);
    if (grant.state !== 'held') return;
    const lock = new KeptLock(grant, leases, this, use);
    this.kept.set(grant, lock);
    let locks = this.byKey.get(leases);
    if (locks === undefined) this.byKey.set(leases, (locks = new Map()));
    locks.set(grant.key, lock);
    for (const request of this.requests.get(grant.key) ?? NONE) if (request.leases === leases) request.join();
  }

  /** Stops keeping a lock. */
  drop(lock: KeptLock): void {
    this.kept.delete(lock.grant);
    const locks = this.byKey.get(lock.leases);
    if (locks?.get(lock.key) === lock) locks.delete(lock.key);
  }

  onKeptLost(lock: KeptLock, error: LockLostError): void {
    this.drop(lock);
    if (!lock.isExpendable) this.onLoss(error);
  }

  /** Adds a request of a caller in this scope. */
  add(request: ScopedRequest): void {
    for (const { requests } of this.outwards()) {
      requests.set(request.key, (requests.get(request.key) ?? new Set()).add(request));
    }
  }

  /** Removes a request, even from scopes that have ended meanwhile. */
  remove(request: ScopedRequest): void {
    const requests = this.requests.get(request.key);
    if (requests?.delete(request) && requests.size === 0) this.requests.delete(request.key);
    this.parent?.remove(request);
  }

  /** Yields this scope and those around it, if they are open. */
  private *outwards(): Generator<ScopeHold> {
    if (this.open) yield this;
    if (this.parent !== undefined) yield* this.parent.outwards();
  }

  expire(): Promise<void> | undefined {
    return expireAll(this.locks);
  }

  /** Aborts the signals of the scope, of the locks that it keeps, and of the scopes inside. The locks stay held. */
  abort(reason: unknown): void {
    for (const lock of this.kept.values()) lock.abort(reason);
    for (const child of this.children) child.abort(reason);
    this.abortSignal(reason);
  }

  private abortSignal(reason: unknown): void {
    this.abortReason ??= reason;
    this.controller?.abort(reason);
    for (const child of this.children) child.abortSignal(reason);
  }

  /**
   * Ends the scope, and releases its locks.
   *
   * @param workError the error of the work in it. Undefined if it succeeded.
   * @throws LockLostError if a lock was lost before and `onLost` is `throw`. Its cause is the error of the work.
   */
  end(workError?: unknown): Promise<void> {
    // From now on, the scope keeps no further locks.
    this.open = false;
    this.parent?.children.delete(this);
    this.children.clear();
    return settle(this, this.onLost, workError);
  }

  /** Releases all locks that the scope keeps, except those that another caller still holds. */
  async release(): Promise<void> {
    const locks = [...this.kept.values()];
    // Work that outlives the scope finds no lock in it.
    this.kept.clear();
    this.byKey.clear();
    await Promise.allSettled(locks.map((lock) => lock.endKept()));
  }

  private onLoss(error: LockLostError): void {
    this.loss ??= error;
    this.abortSignal(error);
  }
}

/**
 * A request for a lock in a scope, and in those around it. If another request in one of them is granted the lock, this
 * request ends, and its caller gets a nested hold.
 */
export class ScopedRequest {
  private readonly joined = new AbortController();

  constructor(
    private readonly scope: ScopeHold,
    readonly leases: LeaseManager,
    readonly key: string,
  ) {
    scope.add(this);
  }

  /** Aborts if another request is granted the lock. */
  get signal(): AbortSignal {
    return this.joined.signal;
  }

  /** Whether another request was granted the lock. */
  get wasJoined(): boolean {
    return this.signal.aborted;
  }

  /** Ends the wait, because a scope keeps the lock. */
  join(): void {
    this.joined.abort();
  }

  end(): void {
    this.scope.remove(this);
  }
}
