import { LockKeyError, LockTimeoutError } from './core/errors.js';
import type { Lock } from './core/lock.js';
import type { Target } from './core/engine-terms.js';
import type { LockEngine } from './core/lock-engine.js';
import { runUnder } from './core/run-under.js';
import type { KeyFactory } from './core/resource-key.js';
import { infoOf, type LockInfo } from './lock-info.js';
import type { LockOptions } from './redis-lock.options.js';
import { type ResolvedLockOptions, resolveLockOptions } from './resolve-options.js';

type Work<T> = (lock: Lock) => T | Promise<T>;

/**
 * Locks by name. Injected as it is, or by `@InjectLockService(name)` where the module has a name.
 *
 * A resource is locked for all processes that use the same Redis, prefix and key options. All methods reject with
 * `LockKeyError` for a resource that makes no safe key, and with `LockConfigError` for options that cannot work.
 *
 * @publicApi
 */
export class LockService {
  /** @internal */
  constructor(
    /** @internal */ readonly engine: LockEngine,
    private readonly keyOf: KeyFactory,
    /** @internal */ readonly defaults: ResolvedLockOptions,
  ) {}

  /**
   * Waits for the lock. Release it in a `finally`, by `await using`, or better: call `using`. The hold does not enter the
   * caller's context: only work inside `using` or a `@Locked` method takes the same lock again without waiting.
   *
   * @throws LockTimeoutError if others held it until `waitMs` was over.
   * @throws LockUnavailableError if Redis could not be asked.
   * @throws LockReentryError if the caller's own context holds it and `reentrant` is off.
   * @throws LockClosedError while the application is shutting down.
   * @throws the signal's reason, once `signal` has aborted.
   */
  acquire(resource: string, options?: LockOptions): Promise<Lock> {
    try {
      return this.engine.acquire(this.targetOf(resource), resolveLockOptions(options, this.defaults));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes the lock if it is free, without waiting for others.
   *
   * @returns null if somebody else holds it. Everything else is thrown as by {@link acquire}: an unreachable Redis is
   * never "free" and never "busy".
   */
  async tryAcquire(resource: string, options?: Omit<LockOptions, 'waitMs'>): Promise<Lock | null> {
    try {
      return await this.acquire(resource, { ...options, waitMs: 0 });
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Runs `fn` under the lock and releases it, whatever happens. Inside, the same resource is held already: asking again,
   * also deep inside other services, gives a nested hold at once.
   *
   * @returns what `fn` returns; what it throws arrives unchanged.
   * @throws LockLostError if the lock was lost while `fn` ran (`onLost: 'throw'`); `cause` is what `fn` threw, if it did.
   * @throws as {@link acquire}, before `fn` runs.
   */
  using<T>(resource: string, fn: Work<T>): Promise<T>;
  using<T>(resource: string, options: LockOptions, fn: Work<T>): Promise<T>;
  async using<T>(resource: string, ...rest: [Work<T>] | [LockOptions, Work<T>]): Promise<T> {
    const [options, fn] = rest.length === 1 ? [undefined, rest[0]] : rest;
    const terms = resolveLockOptions(options, this.defaults);
    return runUnder(await this.engine.acquire(this.targetOf(resource), terms), terms.onLost, fn);
  }

  /**
   * Looks at a lock without touching it: who holds it, who shares it, who waits. The answer may be old when it arrives.
   *
   * @returns null if nobody holds it.
   * @throws LockUnavailableError if Redis could not be asked.
   */
  async inspect(resource: string): Promise<LockInfo | null> {
    const { key } = this.targetOf(resource);
    const state = await this.engine.inspect(key);
    return state === null ? null : infoOf({ resource, key }, state, (id) => this.engine.isSelf(id));
  }

  /** The hold that the caller runs in: of that resource, or the innermost of all. Undefined outside `using` and `@Locked`. */
  current(resource?: string): Lock | undefined {
    return this.engine.current(resource === undefined ? undefined : this.targetOf(resource).key);
  }

  /** @internal */
  targetOf(resource: string): Target {
    if (typeof resource === 'string') return { resource, key: this.keyOf(resource) };
    const found = Array.isArray(resource) ? 'a list: lock several resources one by one' : `a ${typeof resource}`;
    throw new LockKeyError(`A resource is a string such as goods:300; this is ${found}.`);
  }
}
