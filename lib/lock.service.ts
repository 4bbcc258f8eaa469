import type { AcquireOptions } from './engine/options.js';
import { nextCall, type Target } from './events/call.js';
import { aFunction, checkValue } from './common/check-options.js';
import { branded } from './common/brand.js';
import { LockConfigError, LockKeyError, LockTimeoutError } from './common/errors.js';
import { dropPromise, kindOf } from './common/format-value.js';
import { runOutsideHolds } from './engine/call-context.js';
import type { Lock } from './engine/lock.js';
import type { MultiLock } from './engine/multi-lock.js';
import type { Leadership } from './engine/leadership.js';
import type { LockEngine } from './engine/lock-engine.js';
import { checkScopeOptions, type LockScope, type LockScopeOptions, runInLockScope } from './engine/lock-scope.js';
import { type Hold, runOnce, runUnder, WorkDone } from './engine/hold.js';
import { readTicket } from './engine/ticket.js';
import type { ResourceOption } from './keys/bind-template.js';
import { isList, readList } from './keys/key-values.js';
import type { KeySelectorFactory } from './keys/key-selector.js';
import type { KeyFactory } from './keys/resource-key.js';
import type { LockState } from './contract/lock-state.js';
import type { StorePing } from './contract/store-ping.js';
import { type LockInfo, toLockInfo } from './lock-info.js';
import { type LeadOptions, resolveLeadOptions } from './options/lead.options.js';
import type { CommonLockOptions, HowToShare, LockOptions, OnceOptions } from './options/lock.options.js';
import { checkAt, OPTIONS } from './options/option-table.js';
import { type ResolvedLockOptions, resolveLockOptions } from './options/resolve-options.js';
import type {
  AssertHeldOptions,
  ExtendOptions,
  ForceReleaseOptions,
  ListOptions,
  ResumeOptions,
} from './options/service.options.js';
import type { InsteadOf, WrapOptions } from './options/wrap.options.js';
import { type AnyFunction, wrapFunction } from './wrapped-function.js';

export type { AssertHeldOptions, ExtendOptions, ForceReleaseOptions, ListOptions, ResumeOptions };

type Resources = string | readonly string[];
type Work<H, T> = (lock: H) => T | Promise<T>;
type WithoutWait = Omit<CommonLockOptions, 'waitMs'> & HowToShare;
type ResourceOf<A extends readonly unknown[]> = Resources | ((...args: A) => Resources);
type ScopeWork<T> = (scope: LockScope) => T | Promise<T>;

/**
 * Acquires locks by resource. Inject it by its class, or with `@InjectLockService(name)` if the module has a name.
 *
 * A lock applies to all processes that use the same Redis, prefix and key options. Methods that take a resource throw
 * or reject with `LockKeyError` if it cannot form a safe key, and with `LockConfigError` if an option is invalid.
 *
 * @publicApi
 */
@branded('LockService')
export class LockService {
  /** @internal */
  constructor(
    /** @internal */ readonly engine: LockEngine,
    private readonly keyOf: KeyFactory,
    /** @internal */ readonly defaults: ResolvedLockOptions,
    private readonly selectKeys: KeySelectorFactory,
  ) {}

  /**
   * Waits for several locks, at most `waitMs` for all of them, and acquires all or none. A resource that is named twice
   * is locked once.
   *
   * Free locks with the same hash tag are acquired in one step. By default, these are locks of one family, such as
   * `account:1` and `account:2`. If some are held, the locks are acquired one by one in a global order, so overlapping
   * lists cannot deadlock. If one cannot be acquired, the locks acquired so far are released.
   *
   * The lease, `maxHoldMs` and `minHoldMs` of each lock count from its own grant.
   *
   * Multi-locks cannot deadlock each other, unless a caller already holds another lock. In that case, acquire all locks
   * in one call.
   *
   * @throws {LockLostError} if one lock was lost while the caller waited for another.
   * @throws what acquiring one lock throws.
   */
  acquire(resources: readonly string[], options?: LockOptions): Promise<MultiLock>;
  /**
   * Waits for the lock, at most `waitMs`. Release it in a `finally` block or with `await using`, or call {@link using}
   * instead. Only work inside `using`, a `@Locked` method or a lock scope can acquire the same lock again without
   * waiting. The hold from `acquire` is not in the caller's async context.
   *
   * @throws {LockTimeoutError} if others held the lock until `waitMs` had elapsed.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request.
   * @throws {LockReplicationError} if fewer than `replicas.min` replicas confirmed the grant in time.
   * @throws {LockReentryError} if the caller's own context holds the lock, shared or as a permit, and the request has a
   * different mode.
   * @throws {LockClosedError} if the module has closed at the end of a shutdown.
   * @throws the reason of `signal`, if it has aborted.
   */
  acquire(resource: string, options?: LockOptions): Promise<Lock>;
  acquire(resources: Resources, options?: LockOptions): Promise<Hold> {
    try {
      return this.acquireResolved(resources, refuseOnce('acquire()', resolveLockOptions(options, this.defaults)));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Acquires the lock, or all of several locks, without waiting for other holders.
   *
   * @returns null if another holder has the lock, or one of the locks.
   * @throws what {@link acquire} throws, except `LockTimeoutError`. Never returns null because Redis is unavailable.
   */
  tryAcquire(resources: readonly string[], options?: WithoutWait): Promise<MultiLock | null>;
  tryAcquire(resource: string, options?: WithoutWait): Promise<Lock | null>;
  async tryAcquire(resources: Resources, options?: WithoutWait): Promise<Hold | null> {
    try {
      const resolved = refuseOnce('tryAcquire()', resolveLockOptions(options, this.defaults));
      return await this.acquireResolved(resources, { ...resolved, waitMs: 0 });
    } catch (error) {
      if (error instanceof LockTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Runs `fn` under one or several locks, and releases them when `fn` has settled. Inside `fn`, even in other services,
   * acquiring the same resource returns a nested hold immediately.
   *
   * @returns the result of `fn`. With `onceMs`, undefined if the work is done, and `fn` is not called. An error of `fn`
   * is thrown unchanged.
   * @throws {LockLostError} if the lock was lost while `fn` ran, unless `onLost` is `ignore`. Its `cause` is the error
   * of `fn`, if there is one.
   * @throws {LockConfigError} if `fn` is not a function, or returns an Observable or a generator, which would run
   * without the lock.
   * @throws what {@link acquire} throws, before `fn` runs.
   */
  using<T>(resources: readonly string[], fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resources: readonly string[], options: LockOptions, fn: Work<MultiLock, T>): Promise<T>;
  using<T>(resource: string, fn: Work<Lock, T>): Promise<T>;
  using<T>(resource: string, options: OnceOptions, fn: Work<Lock, T>): Promise<T | undefined>;
  using<T>(resource: string, options: LockOptions, fn: Work<Lock, T>): Promise<T>;
  using<T>(
    resources: Resources,
    ...rest: [Work<never, T>] | [LockOptions | OnceOptions, Work<never, T>]
  ): Promise<T | undefined> {
    try {
      const [options, fn] = rest.length === 1 ? [undefined, rest[0]] : rest;
      checkValue('using()', 'the work', fn, aFunction);
      const resolved = resolveLockOptions(options, this.defaults);
      if (resolved.onceMs !== undefined)
        return this.usingOnce(resources, resolved, resolved.onceMs, fn as Work<Lock, T>);
      return runUnder(this.acquireResolved(resources, resolved), resolved.onLost, fn as Work<Hold, T>);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Returns a function that runs `fn` under a lock, as `@Locked` does with a method. Each call passes its `this` and
   * its arguments on.
   *
   * ```ts
   * const buy = locks.wrap('goods:<id>', async (id: number) => `goods ${id} are sold`);
   * const sell = locks.wrap((id) => resource`goods:${id}`, async (id: number) => `goods ${id} are sold`);
   * ```
   *
   * A placeholder takes the value of a parameter. `<id>` is the parameter with this name in the source of `fn`,
   * `<dto.id>` a property of the parameter `dto`, and `<0>` the first parameter. A minifier renames parameters, and a
   * default value is not seen, so use an index or a function of the arguments there. A list of templates, or a spread
   * placeholder such as `<...ids>`, locks several resources together. Inside `fn`, {@link current} returns the lock.
   *
   * @param resource a template, a list of templates, or a function that returns the resource for the arguments.
   * @param fn a function. Its result may be a promise. It must not be a generator.
   * @throws {LockKeyError} if a template is invalid, has a name that cannot be bound, or names a parameter with a
   * default value. At the call, if an argument cannot form a key: undefined, an object, an empty array.
   * @throws {LockConfigError} if an option is not allowed, or `fn` is not a function, or is a generator.
   * @throws what {@link using} throws, at the call.
   */
  wrap<This, A extends readonly unknown[], T>(
    resource: ResourceOf<A>,
    fn: (this: This, ...args: A) => T,
  ): (this: This, ...args: A) => Promise<Awaited<T>>;
  wrap<This, A extends readonly unknown[], T, O extends WrapOptions<A> = object>(
    resource: ResourceOf<A>,
    options: WrapOptions<A> & O,
    fn: (this: This, ...args: A) => T,
  ): (this: This, ...args: A) => Promise<Awaited<T> | InsteadOf<O>>;
  wrap(resource: ResourceOption, ...rest: [AnyFunction] | [WrapOptions, AnyFunction]): AnyFunction {
    const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
    return wrapFunction((resources, all) => this.acquireResolved(resources, all), this.defaults, resource, options, fn);
  }

  /**
   * Runs `fn` in a lock scope: every lock that is acquired inside is kept and renewed until `fn` has settled, even if
   * its own hold ends earlier. The locks are then released, even if `fn` fails. See {@link runInLockScope}.
   *
   * The scope keeps the locks of all module instances. This instance sets the default of `onLost`.
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
   * Runs `fn`, and everything that it starts, outside of all holds and lock scopes of this library. Use it to start
   * work for other callers inside a hold: the loop of a shared queue, a timer, a subscription. That work then acquires
   * its locks like any other caller. Every other `AsyncLocalStorage` is kept, such as those of traces.
   *
   * Do not await work inside a hold that acquires the same lock outside of it: it waits until `waitMs` has elapsed.
   *
   * @returns what `fn` returns.
   * @throws {LockConfigError} if `fn` is not a function.
   */
  outside<T>(fn: () => T): T {
    checkValue('outside()', 'the work', fn, aFunction);
    return runOutsideHolds(fn);
  }

  /**
   * Makes a detached lock a hold of this instance, with the same fencing token. The hold is renewed from now on. The
   * ticket is over: of two calls with one ticket, one gets the lock. Detach the lock again for the next request.
   *
   * `maxHoldMs` counts from the first grant. The hold is not in the caller's async context, as after {@link acquire}.
   *
   * @param ticket what `Lock.detach()` returned, in any process.
   * @throws {LockLostError} if the ticket no longer has the lock: the lock has expired, was released or resumed, or the
   * ticket is that of another resource. HTTP responds with 409.
   * @throws {LockKeyError} if this is not a ticket. HTTP responds with 400.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request, again and again for
   * `unavailableAfterMs`. In the background, this instance then gives the lock back to the ticket. So the caller may
   * repeat the call. In another instance, it may get a `LockLostError` until the lock was given back.
   * @throws {LockClosedError} if the application is shutting down. The lock is then given back to the ticket.
   * @throws {LockConfigError} if an option is not allowed, or the store cannot keep locks for tickets.
   */
  async resume(resource: string, ticket: string, options: ResumeOptions = {}): Promise<Lock> {
    const target = this.targetOf(resource);
    const given = checkAt('resume()', options);
    const lock = { ...this.defaults, ...given, mode: 'exclusive', maxHoldMs: Infinity, minHoldMs: 0 } as const;
    return this.engine.tickets.resume(target, readTicket(ticket, resource), lock);
  }

  /**
   * Gives a detached lock a new lease, counted from now: the heartbeat of its holder. Never shortens the current lease,
   * and never exceeds `maxHoldMs` since the first grant.
   *
   * @throws what {@link resume} throws. Nothing is given back, because the ticket stays valid.
   */
  async extend(resource: string, ticket: string, options: ExtendOptions = {}): Promise<void> {
    const target = this.targetOf(resource);
    const read = readTicket(ticket, resource);
    const { ttlMs = read.ttlMs } = checkAt('extend()', options);
    const { unavailableAfterMs } = this.defaults;
    await this.engine.tickets.extend(target, read, { ttlMs, unavailableAfterMs });
  }

  /**
   * Releases a detached lock, and hands it to the next waiter in the queue. Releasing twice has no further effect.
   *
   * @returns false if the ticket no longer has the lock.
   * @throws {LockKeyError} if this is not a ticket. HTTP responds with 400.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request. The release is repeated in the
   * background until the store replies or the lease expires.
   * @throws {LockConfigError} if the store cannot keep locks for tickets.
   */
  async release(resource: string, ticket: string): Promise<boolean> {
    return this.engine.tickets.release(this.targetOf(resource), readTicket(ticket, resource));
  }

  /**
   * Starts a candidate for the leadership of a resource. Of the candidates in all processes, one leads at a time. The
   * others wait in the queue. The next one leads as soon as the leader steps down, or within one lease after a crash.
   * The candidate campaigns until it is closed or the application shuts down, even through outages of Redis.
   *
   * The leader holds the exclusive lock of the resource, so `inspect` shows the leader.
   *
   * @throws {LockConfigError} if an option is not allowed, or the store does not support the lease.
   * @throws {LockKeyError} if the resource cannot form a safe key.
   */
  lead(resource: string, options: LeadOptions = {}): Leadership {
    return this.campaign(resource, options);
  }

  /** Starts nothing. Throws what {@link lead} throws. @internal */
  checkLead(resource: string, options: LeadOptions): void {
    this.engine.checkStore(this.targetOf(resource), resolveLeadOptions(options, this.defaults).lock);
  }

  /** Does what {@link lead} does. `name` names the work of the leader in the log. @internal */
  campaign(resource: string, options: LeadOptions, name?: string): Leadership {
    const { candidacy, lock } = resolveLeadOptions(options, this.defaults);
    return this.engine.lead(this.targetOf(resource), lock, { ...candidacy, name });
  }

  /**
   * Reads from Redis who holds a lock and who waits for it. Another process can change that at any time.
   *
   * @returns null if nobody holds the lock and nobody waits for it.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request.
   */
  async inspect(resource: string): Promise<LockInfo | null> {
    const target = this.targetOf(resource);
    const state = await this.engine.inspect(target);
    const { key } = target;
    return state === null ? null : this.describe({ resource, key }, state);
  }

  /**
   * Yields every lock with this module's prefix that is held or waited for, on all servers. Reads from Redis step by
   * step, with SCAN, so it does not block the server. Remembers the yielded keys: 100,000 take about 20 MB. Ends early
   * if the caller leaves the loop.
   *
   * A lock that is held or waited for throughout the scan is yielded once. Locks that appear or disappear meanwhile may
   * be missing.
   *
   * ```ts
   * for await (const { resource, identity } of locks.list({ match: 'goods:*' })) console.log(resource, identity);
   * ```
   *
   * @throws {LockConfigError} on the first step if an option is not allowed, if the store cannot list its locks, or if
   * the module has a `key` function, because resources cannot be derived from its keys.
   * @throws {LockUnavailableError} if a server did not reply, refused SCAN, or was replaced by another server during
   * the scan. The list would then be incomplete. Locks yielded before the error are valid.
   */
  async *list(options: ListOptions = {}): AsyncGenerator<LockInfo, void, undefined> {
    const { match, count = OPTIONS.count.default } = checkAt('list()', options);
    const { pattern, resourceOf } = this.selectKeys(match);
    const selects = (key: string): boolean => resourceOf(key) !== undefined;
    const { engine } = this;
    for await (const { key, state } of engine.list({ pattern, selects, count })) {
      const resource = resourceOf(key) as string;
      yield this.describe({ resource, key }, state);
    }
  }

  /**
   * Sends a cheap request to each server that keeps locks, and returns which of them replied, how long that took, and
   * what is limited. Takes at most 1 s. Acquires nothing. Does not reject if a server is down.
   *
   * All locks together need every master of a cluster, and a majority of a quorum. A server that replies may still
   * refuse locks. `degraded` then says so, until one minute after the last refusal.
   */
  ping(): Promise<StorePing> {
    return this.engine.ping();
  }

  /**
   * Ends any owner's hold of a lock, and hands the lock to the next waiter in the queue. All holders of a shared lock
   * lose it, and so do all holders of permits. For operators: the work of the former holder may still be running, and
   * only a fence refuses its late writes.
   *
   * The `signal` of the former holder aborts with a `LockLostError`. With `token()`, a message makes the holder renew,
   * which detects the loss at once. It reaches an instance that is subscribed because it has waited for a lock before.
   * Otherwise, the holder's next renewal detects the loss, after a third of the lease. Holds of this module instance
   * end immediately. The former holder's own release no longer has an effect.
   *
   * @returns false if nobody holds the lock, or if `ifToken` is not its holder's token. Nothing happens in these cases.
   * Also false if the hold ended by itself at the same moment.
   * @throws {LockConfigError} if an option is not allowed, or the store cannot release by force.
   * @throws {LockUnavailableError} if Redis did not reply or refused the request. The hold may still have ended.
   */
  async forceRelease(resource: string, options: ForceReleaseOptions = {}): Promise<boolean> {
    const { ifToken } = checkAt('forceRelease()', options);
    return this.engine.forceRelease(this.targetOf(resource), this.defaults.ttlMs, ifToken);
  }

  /**
   * Whether the application has begun to shut down. For a readiness check: the application still serves requests, and
   * the load balancer should send no more. True from Nest's `onModuleDestroy` phase on, and never false again.
   */
  get isShuttingDown(): boolean {
    return this.engine.isShuttingDown;
  }

  /**
   * Returns the hold of the resource that the caller runs under. Without a resource, returns the innermost hold: for a
   * multi-lock, its first lock, and for a lock scope, the first lock that it keeps. Undefined outside of holds.
   */
  current(resource?: string): Lock | undefined {
    return this.engine.current(resource === undefined ? undefined : this.targetOf(resource).key);
  }

  /**
   * Throws unless the caller runs under the lock: inside `using`, a `@Locked` method, or a lock scope that keeps it.
   * Call it in work whose callers must hold the lock. Checks the lock against its local deadline, without a request.
   *
   * @returns the hold, for its `signal` and its `fencingToken`.
   * @throws {LockNotHeldError} if the caller does not run under the lock, or if it only shares the lock and `mode` is
   * not `shared`. The hold from `acquire` is not in the caller's context, so call `assertHeld()` on that lock.
   * @throws {LockLostError} if the lock was lost.
   */
  assertHeld(resource: string, options: AssertHeldOptions = {}): Lock {
    const { mode = OPTIONS.mode.default } = checkAt('assertHeld()', options);
    return this.engine.assertHeld(this.targetOf(resource), mode);
  }

  /** @internal */
  acquireResolved(
    resources: Resources,
    options: ResolvedLockOptions & Pick<AcquireOptions, 'method' | 'family'>,
  ): Promise<Lock | MultiLock> {
    if (typeof resources === 'string') return this.engine.acquire(this.targetOf(resources), options);
    if (!isList(resources)) throw noResource(resources);
    if (options.onceMs !== undefined) throw new LockConfigError('onceMs: expected one resource, not a list.');
    const list = readList(resources, () => 'The list of resources');
    return this.engine.acquireAll(
      list.map((resource) => this.targetOf(resource)),
      options,
    );
  }

  private async usingOnce<T>(
    resource: Resources,
    options: ResolvedLockOptions,
    onceMs: number,
    fn: Work<Lock, T>,
  ): Promise<T | undefined> {
    let lock: Lock;
    try {
      // A list is refused.
      lock = (await this.acquireResolved(resource, options)) as Lock;
    } catch (error) {
      if (error instanceof WorkDone) return undefined;
      throw error;
    }
    return runUnder(lock, options.onLost, () => runOnce(lock, onceMs, () => fn(lock)));
  }

  private describe(target: Target, state: LockState): LockInfo {
    const { engine } = this;
    const calls = engine.callsAt(target.key);
    const info = toLockInfo(target, state, { isOwn: (id) => id === engine.instanceId, now: engine.now(), calls });
    return { ...info, waitingHere: engine.waitingAt(target.key) };
  }

  private targetOf(resource: unknown): Target {
    if (typeof resource === 'string') return { resource, key: this.keyOf(resource), call: nextCall() };
    throw noResource(resource);
  }
}

/** Returns options of a call that does not know how its work ends. */
function refuseOnce(call: string, options: ResolvedLockOptions): ResolvedLockOptions {
  if (options.onceMs === undefined) return options;
  throw new LockConfigError(`onceMs: ${call} does not know whether work succeeded; use using() or @Locked.`);
}

function noResource(given: unknown): LockKeyError {
  // A key function of `@Locked` may be asynchronous by mistake.
  dropPromise(given);
  return new LockKeyError(`A resource is a string such as goods:300; this is ${kindOf(given)}.`);
}

/** Returns whether a value is a lock service, or a proxy that Nest has put around one. Never throws. */
export function isLockService(value: unknown): value is LockService {
  return value instanceof LockService;
}

/** Returns whether a value is that lock service, or a proxy that Nest has put around it. */
export function isSameService(service: LockService, value: unknown): boolean {
  return isLockService(value) && value.engine.instanceId === service.engine.instanceId;
}
