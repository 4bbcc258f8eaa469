import { inspect, type InspectOptions } from 'node:util';
import { aFunction, checkOptions, checkValue, oneOf } from '../common/check-options.js';
import { LockLostError } from '../common/errors.js';
import { inspectFields } from '../common/inspect-fields.js';
import { innermostScope, runInHold } from './call-context.js';
import { begun, expireAll, type Hold, refuseLazy, settle } from './hold.js';
import { Lock } from './lock.js';
import type { MultiLock } from './multi-lock.js';
import type { OnLost } from './options.js';
import type { Parts } from './lock-engine.js';

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
 * @throws {LockConfigError} if `fn` is not a function or returns an Observable or a generator, or an option is not
 * allowed.
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
    result = await scope.run(() => begun(fn(scope)));
    refuseLazy(result);
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
  const scope = innermostScope() as ScopeHold | undefined;
  return scope === undefined || scope.isOpen ? scope : scope.parent;
}

/** How a caller uses a lock that a scope keeps. */
export interface KeptUse {
  readonly onLost?: OnLost | undefined;
  /** Whether the end of the scope waits for the reply to the release. Default: true. */
  readonly awaitRelease?: boolean;
}

/** A scope's hold of a lock. */
class KeptLock extends Lock {
  /** Whether the scope continues if the lock is lost, because no caller relies on it. */
  isExpendable: boolean;

  constructor(
    private readonly scope: ScopeHold,
    { lease, resource, options, grantedAt, call, root }: Lock,
    { onLost, awaitRelease }: KeptUse,
  ) {
    super(lease, resource, { ...options, awaitRelease }, grantedAt, call, root, true);
    this.isExpendable = onLost === 'ignore';
  }

  /** Does nothing, because the scope ends this hold. Callers get it from `LockService.current()` or `@CurrentLock`. */
  override release(): Promise<boolean> {
    return Promise.resolve(this.held);
  }

  /** Ends the hold, with the scope. */
  endKept(): Promise<boolean> {
    return this.end();
  }

  protected override unused(): void {
    this.scope.drop(this);
    void this.end();
  }

  protected override onLost(loss: LockLostError): void {
    super.onLost(loss);
    this.scope.onKeptLost(this, loss);
  }
}

/** A lock scope, and the locks that it keeps. */
export class ScopeHold implements Hold, LockScope {
  loss: LockLostError | undefined;
  private open = true;
  /** By the caller's own lock. */
  private readonly kept = new Map<Lock, KeptLock>();
  private readonly children = new Set<ScopeHold>();
  /** Made when the signal is first read, because the scopes of nearly all handlers need none. */
  private controller: AbortController | undefined;
  private abortReason: unknown;
  private outer = scopeAround();

  constructor(private readonly onLost: OnLost = 'throw') {
    this.parent?.children.add(this);
    this.abortReason = this.parent?.abortReason;
  }

  get isOpen(): boolean {
    return this.open;
  }

  /** The innermost open scope around this one. Ended ones are forgotten: work may start its successor inside. */
  get parent(): ScopeHold | undefined {
    while (this.outer?.open === false) this.outer = this.outer.outer;
    return this.outer;
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
    this.parent?.assertHeld();
  }

  /** Returns what logs show of the scope: the resources of the locks that it keeps. */
  toJSON(): object {
    return { resources: this.locks.map(({ resource }) => resource), isOpen: this.open };
  }

  /** Shows the fields of {@link toJSON}. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `LockScope ${inspectFields(this.toJSON(), options)}`;
  }

  find(parts: Parts, key?: string): Lock | undefined {
    for (const lock of this.kept.values()) if (lock.find(parts, key) !== undefined) return lock;
    return undefined;
  }

  /** Returns a lock that this scope or one around it keeps. */
  findOutwards(parts: Parts, key: string): Lock | undefined {
    return this.find(parts, key) ?? this.parent?.findOutwards(parts, key);
  }

  /** Keeps a caller's lock in this scope and in the open scopes around it. */
  keep(lock: Lock, onLost: OnLost | undefined): void {
    this.keepHere(lock, { onLost });
    this.parent?.keep(lock, onLost);
  }

  /** Keeps, in this scope only, locks that a caller was given outside of it. */
  keepAll({ locks }: Hold, use: KeptUse): void {
    for (const lock of locks) this.keepHere(lock, use);
  }

  /** Returns the scope's own hold of locks that it keeps. It ends with the scope, whatever its caller does. */
  ownHoldOf(hold: Lock | MultiLock): Lock | MultiLock {
    return hold.map((lock) => this.kept.get(lock.root) ?? lock);
  }

  private keepHere(lock: Lock, use: KeptUse): void {
    if (!this.open) return;
    const { root, loss, isAlive } = lock;
    const isExpendable = use.onLost === 'ignore';
    const known = this.kept.get(root);
    if (known !== undefined) {
      known.isExpendable &&= isExpendable;
      return;
    }
    if (loss !== undefined && !isExpendable) this.onLoss(loss);
    if (!isAlive) return;
    this.kept.set(root, new KeptLock(this, lock, use));
  }

  /** Stops keeping a lock. */
  drop(lock: KeptLock): void {
    this.kept.delete(lock.root);
  }

  onKeptLost(lock: KeptLock, error: LockLostError): void {
    this.drop(lock);
    if (!lock.isExpendable) this.onLoss(error);
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
    // What failed around the work may have undone it, as a rollback does.
    if (workError !== undefined) for (const lock of this.kept.values()) lock.unmarkDone();
    return settle(this, this.onLost, workError);
  }

  /** Releases all locks that the scope keeps, except those that another caller still holds. */
  async release(): Promise<void> {
    const locks = [...this.kept.values()];
    // Work that outlives the scope finds no lock in it.
    this.kept.clear();
    await Promise.allSettled(locks.map((lock) => lock.endKept()));
  }

  private onLoss(error: LockLostError): void {
    this.loss ??= error;
    this.abortSignal(error);
  }
}

/** The property of `globalThis` that says that every transaction of this process is a lock scope. */
export const TRANSACTIONS_ARE_SCOPES = Symbol.for('nestjs-redis-lock:transactions-are-scopes');

/**
 * Declares that every transaction of this process is a lock scope: a lock that ends inside a transaction is released
 * after the commit. `@Transactional()` above `@Locked` is then correct, and the module does not warn about it.
 */
export function declareTransactionScopes(): void {
  Reflect.set(globalThis, TRANSACTIONS_ARE_SCOPES, true);
}

/** Returns whether transactions were declared to be lock scopes. */
export function transactionsAreScopes(): boolean {
  return Reflect.get(globalThis, TRANSACTIONS_ARE_SCOPES) === true;
}
