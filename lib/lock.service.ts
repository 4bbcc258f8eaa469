import { LockKeyError, LockTimeoutError } from './core/errors.js';
import type { Hold, Lock } from './core/hold/lock.js';
import type { MultiLock } from './core/hold/multi-lock.js';
import type { Target } from './core/acquire/acquire-options.js';
import type { LockEngine } from './core/lock-engine.js';
import { runUnder } from './core/hold/run-under.js';
import { kindOf } from './core/keys/key-values.js';
import type { KeyFactory } from './core/keys/resource-key.js';
import { infoOf, type LockInfo } from './lock-info.js';
import type { LockOptions } from './options/redis-lock.options.js';
import { type ResolvedLockOptions, resolveLockOptions } from './options/resolve-options.js';

type Resources = string | readonly string[];
type Work<H, T> = (lock: H) => T | Promise<T>;

/** More than that, and they have something in common that would better be locked. */
const MOST_RESOURCES = 1_000;

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
   * Waits for several locks, and gives all of them or none: one `waitMs` is for all, and what was taken is released if another
   * cannot be had. Under one hash tag (of one family, as `account:1` and `account:2`, by default) free ones are taken at once, in one
   * step. Otherwise they are waited for one after the other, in an order that is the same everywhere, so that calls whose lists
   * cross never wait for each other. A resource that is named twice is locked once.
   *
   * Each one's lease, `maxHoldMs` and `minHoldMs` count from its own grant, also while others are waited for.
   *
   * Work that holds locks and asks for others inside has its own order: where two do so crosswise, both wait until `waitMs` is over.
   * Take all at once instead.
   *
   * @throws as for one, and LockLostError if one was lost while another was waited for.
   */
  acquire(resources: readonly string[], options?: LockOptions): Promise<MultiLock>;
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
  acquire(resource: string, options?: LockOptions): Promise<Lock>;
  acquire(resources: Resources, options?: LockOptions): Promise<Hold> {
    try {
      return this.enter(resources, resolveLockOptions(options, this.defaults));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes the lock if it is free, without waiting for others.
   *
   * @returns null if somebody else holds it, or one of them. Everything else is thrown as by {@link acquire}: an unreachable Redis is
   * never "free" and never "busy".
   */
  tryAcquire(resources: readonly string[], options?: Omit<LockOptions, 'waitMs'>): Promise<MultiLock | null>;
  tryAcquire(resource: string, options?: Omit<LockOptions, 'waitMs'>): Promise<Lock | null>;
  async tryAcquire(resources: Resources, options?: Omit<LockOptions, 'waitMs'>): Promise<Hold | null> {
    try {
      return await this.enter(resources, resolveLockOptions({ ...options, waitMs: 0 }, this.defaults));
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
  using<T>(resources: readonly string[], fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resources: readonly string[], options: LockOptions, fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resource: string, fn: Work<Lock, T>): Promise<T>;
  using<T>(resource: string, options: LockOptions, fn: Work<Lock, T>): Promise<T>;
  async using<T>(resources: Resources, ...rest: [Work<never, T>] | [LockOptions, Work<never, T>]): Promise<T> {
    const [options, fn] = rest.length === 1 ? [undefined, rest[0]] : rest;
    const terms = resolveLockOptions(options, this.defaults);
    return runUnder(await this.enter(resources, terms), terms.onLost, fn as Work<Hold, T>);
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

  /**
   * The hold that the caller runs in: of that resource, or the innermost of all, of several that were taken together the first.
   * Undefined outside `using` and `@Locked`.
   */
  current(resource?: string): Lock | undefined {
    return this.engine.current(resource === undefined ? undefined : this.targetOf(resource).key);
  }

  /** @internal */
  enter(resources: Resources, terms: ResolvedLockOptions): Promise<Hold> {
    if (!Array.isArray(resources)) return this.engine.acquire(this.targetOf(resources as string), terms);
    if (resources.length > 0 && resources.length <= MOST_RESOURCES) {
      // What is missing in it is to be noticed, too.
      const targets = Array.from(resources as readonly string[], (resource) => this.targetOf(resource));
      return this.engine.acquireAll(targets, terms);
    }
    throw new LockKeyError(
      `There are ${resources.length} resources to lock together; allowed is 1 to ${MOST_RESOURCES}.`,
    );
  }

  private targetOf(resource: string): Target {
    if (typeof resource === 'string') return { resource, key: this.keyOf(resource) };
    throw new LockKeyError(`A resource is a string such as goods:300; this is ${kindOf(resource)}.`);
  }
}
