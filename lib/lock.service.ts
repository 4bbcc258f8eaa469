import type { AcquireOptions, Target } from './core/acquire/acquire-options.js';
import { aFunction, checkValue } from './core/check-options.js';
import { LockKeyError, LockTimeoutError } from './core/errors.js';
import { dropPromise, kindOf } from './core/format-value.js';
import type { Hold, Lock } from './core/hold/lock.js';
import type { MultiLock } from './core/hold/multi-lock.js';
import type { LockEngine } from './core/lock-engine.js';
import { checkScopeOptions, type LockScope, type LockScopeOptions, runInLockScope } from './core/hold/lock-scope.js';
import { runUnder } from './core/hold/run-under.js';
import { isList, readList } from './core/keys/read-list.js';
import type { KeyFactory } from './core/keys/resource-key.js';
import { type LockInfo, toLockInfo } from './lock-info.js';
import type { LockOptions } from './options/redis-lock.options.js';
import { type ResolvedLockOptions, resolveLockOptions } from './options/resolve-options.js';

type Resources = string | readonly string[];
type Work<H, T> = (lock: H) => T | Promise<T>;
type ScopeWork<T> = (scope: LockScope) => T | Promise<T>;

/**
 * Acquires locks by resource. Inject it by its class, or by `@InjectLockService(name)` if the module has a name.
 *
 * A lock excludes all processes that use the same Redis, prefix and key options. All methods reject with `LockKeyError`
 * for a resource that makes no safe key, and with `LockConfigError` for options that are not allowed.
 *
 * @publicApi
 */
export class LockService {
  /** The defaults of work that runs under a lock. */
  private readonly workDefaults: ResolvedLockOptions & Pick<AcquireOptions, 'runsWork'>;

  /** @internal */
  constructor(
    /** @internal */ readonly engine: LockEngine,
    private readonly keyOf: KeyFactory,
    /** @internal */ readonly defaults: ResolvedLockOptions,
  ) {
    this.workDefaults = { ...defaults, runsWork: true };
  }

  /**
   * Waits for several locks, at most `waitMs` for all of them, and acquires all or none. A resource that is named twice
   * is locked once.
   *
   * Free locks with the same hash tag are acquired in one step. By default these are locks of one family, such as
   * `account:1` and `account:2`. If some are held, the locks are acquired one by one in a global order, so overlapping
   * lists cannot deadlock. If one cannot be acquired, those already held are released.
   *
   * The lease, `maxHoldMs` and `minHoldMs` of each lock count from its own grant.
   *
   * Multi-locks cannot deadlock each other, unless they are acquired while already holding another lock. Acquire all of
   * them at once instead.
   *
   * @throws {LockLostError} if a lock was lost while waiting for another.
   * @throws what acquiring one lock throws.
   */
  acquire(resources: readonly string[], options?: LockOptions): Promise<MultiLock>;
  /**
   * Waits for the lock, at most `waitMs`. Release it in a `finally` block or by `await using`, or call {@link using}
   * instead. Only work inside `using`, a `@Locked` method or a lock scope can acquire the same lock again without
   * waiting: the hold of `acquire` is not in the caller's async context.
   *
   * @throws {LockTimeoutError} if others held the lock until `waitMs` was over.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request.
   * @throws {LockReplicationError} if fewer than `replicas.min` replicas confirmed the grant in time.
   * @throws {LockReentryError} if the caller's own context holds the lock and `reentrant` is false, or if that hold is
   * shared and the request is exclusive.
   * @throws {LockClosedError} while the application is shutting down.
   * @throws the reason of `signal`, if it has aborted.
   */
  acquire(resource: string, options?: LockOptions): Promise<Lock>;
  acquire(resources: Resources, options?: LockOptions): Promise<Hold> {
    try {
      return this.acquireResolved(resources, resolveLockOptions(options, this.defaults));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Acquires the lock, or all of several locks, without waiting for other holders.
   *
   * @returns null if another holder has the lock, or one of them.
   * @throws what {@link acquire} throws, apart from `LockTimeoutError`. An unavailable Redis never returns null.
   */
  tryAcquire(resources: readonly string[], options?: Omit<LockOptions, 'waitMs'>): Promise<MultiLock | null>;
  tryAcquire(resource: string, options?: Omit<LockOptions, 'waitMs'>): Promise<Lock | null>;
  async tryAcquire(resources: Resources, options?: Omit<LockOptions, 'waitMs'>): Promise<Hold | null> {
    try {
      const resolved = resolveLockOptions(options, this.defaults);
      return await this.acquireResolved(resources, { ...resolved, waitMs: 0 });
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Runs `fn` under the lock, or under several, and releases it when `fn` has settled. Inside, also in other services,
   * acquiring the same resource returns a nested hold at once.
   *
   * @returns the result of `fn`. An error of `fn` is thrown unchanged.
   * @throws {LockLostError} if the lock was lost while `fn` ran, unless `onLost` is `ignore`. Its `cause` is the error
   * of `fn`, if there is one.
   * @throws {LockConfigError} if `fn` is no function.
   * @throws what {@link acquire} throws, before `fn` runs.
   */
  using<T>(resources: readonly string[], fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resources: readonly string[], options: LockOptions, fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resource: string, fn: Work<Lock, T>): Promise<T>;
  using<T>(resource: string, options: LockOptions, fn: Work<Lock, T>): Promise<T>;
  using<T>(resources: Resources, ...rest: [Work<never, T>] | [LockOptions, Work<never, T>]): Promise<T> {
    try {
      const [options, fn] = rest.length === 1 ? [undefined, rest[0]] : rest;
      checkValue('using()', 'the work', fn, aFunction);
      const resolved = resolveLockOptions(options, this.workDefaults);
      return runUnder(this.acquireResolved(resources, resolved), resolved.onLost, fn as Work<Hold, T>);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Runs `fn` in a lock scope: every lock that is acquired inside is kept and renewed until `fn` has settled, also if
   * its own use ends before. The locks are then released, also if `fn` fails. See {@link runInLockScope}.
   *
   * The scope keeps the locks of all module instances. This one gives the default of `onLost`.
   *
   * @returns the result of `fn`. An error of `fn` is thrown unchanged.
   * @throws what {@link runInLockScope} throws.
   */
  scope<T>(fn: ScopeWork<T>): Promise<T>;
  scope<T>(options: LockScopeOptions | undefined, fn: ScopeWork<T>): Promise<T>;
  async scope<T>(...args: [ScopeWork<T>] | [LockScopeOptions | undefined, ScopeWork<T>]): Promise<T> {
    const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
    const { onLost = this.defaults.onLost } = options === undefined ? {} : checkScopeOptions(options, 'scope()');
    return runInLockScope({ onLost }, fn);
  }

  /**
   * Reads from Redis who holds a lock and who waits for it. Another process can change that at any time.
   *
   * @returns null if the lock is free.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request.
   */
  async inspect(resource: string): Promise<LockInfo | null> {
    const { key } = this.targetOf(resource);
    const state = await this.engine.inspect(key);
    return state === null ? null : toLockInfo({ resource, key }, state, (id) => this.engine.isSelf(id));
  }

  /**
   * Returns the hold of that resource that the caller runs in. Without a resource, the innermost hold: of a multi-lock,
   * its first lock, and of a lock scope, the first lock that it keeps. Returns undefined outside of them.
   */
  current(resource?: string): Lock | undefined {
    return this.engine.current(resource === undefined ? undefined : this.targetOf(resource).key);
  }

  /** @internal */
  acquireResolved(
    resources: Resources,
    options: ResolvedLockOptions & Pick<AcquireOptions, 'runsWork'>,
  ): Promise<Hold> {
    if (typeof resources === 'string') return this.engine.acquire(this.targetOf(resources), options);
    if (!isList(resources)) throw noResource(resources);
    const list = readList(resources, () => 'The list of resources');
    return this.engine.acquireAll(
      list.map((resource) => this.targetOf(resource)),
      options,
    );
  }

  private targetOf(resource: unknown): Target {
    if (typeof resource === 'string') return { resource, key: this.keyOf(resource) };
    throw noResource(resource);
  }
}

function noResource(given: unknown): LockKeyError {
  // A key function of `@Locked` may be asynchronous by mistake.
  dropPromise(given);
  return new LockKeyError(`A resource is a string such as goods:300; this is ${kindOf(given)}.`);
}

// By `Symbol.for` and not `instanceof`: an application may load this package twice.
const LOCK_SERVICE = Symbol.for('nestjs-redis-lock:lock-service');
Object.defineProperty(LockService.prototype, LOCK_SERVICE, { value: true });

/** Returns whether a value is a lock service. Mocks of the class are none. Never throws. */
export function isLockService(value: unknown): value is LockService {
  try {
    return (value as Record<symbol, unknown> | null | undefined)?.[LOCK_SERVICE] === true;
  } catch {
    // A revoked Proxy, or a mock that throws.
    return false;
  }
}
