import { eitherOf, onAbort, throwIfAborted } from '../context/abort-signals.js';
import type { Target } from '../events/call.js';
import type { LockEvents } from '../events/diagnostics.js';
import { LockReentryError, nameCaller } from '../errors.js';
import { heldAround } from '../hold/held-locks.js';
import { scopeAround, ScopedRequest, type ScopeHold } from '../hold/lock-scope.js';
import { Lock } from '../hold/lock.js';
import { MultiLock } from '../hold/multi-lock.js';
import type { Grant } from '../lease/grant.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import type { Lifecycle } from '../lifecycle.js';
import { kindOf } from '../store/lock-mode.js';
import type { LockStore } from '../store/lock-store.js';
import {
  acquireError,
  type LastReply,
  storeLimitOf,
  tooShortLease,
  unsupportedMode,
  upgradeError,
} from './acquire-errors.js';
import { type AcquireOptions, leaseOf } from './acquire-options.js';
import type { Lines } from './lines.js';
import { inLockOrder } from './lock-order.js';

/** One call of `acquire` or `acquireAll` that needs a request. */
interface AcquireCall {
  readonly options: AcquireOptions;
  readonly startedAt: number;
  /** Whether the caller runs in a hold of this engine. */
  readonly nested: boolean;
}

/** A caller's lock: a new one, or a nested hold. */
interface ScopedLock {
  readonly lock: Lock;
  readonly isNew: boolean;
}

/** Gives callers their locks: a nested hold of a lock that the caller holds, or a new one from the lines. */
export class Acquirer {
  constructor(
    private readonly store: Pick<LockStore, 'capabilities'>,
    private readonly lines: Lines,
    private readonly leases: LeaseManager,
    private readonly events: LockEvents,
    private readonly lifecycle: Lifecycle,
  ) {}

  /** Waits for the lock, or joins the hold that the caller runs in. */
  acquire(target: Target, options: AcquireOptions): Promise<Lock> {
    try {
      return this.acquireOrNest(target, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  // Every lock goes through here, and `async` is slower here than `then`.
  private acquireOrNest(target: Target, options: AcquireOptions): Promise<Lock> {
    throwIfAborted(options.signal);
    this.checkStore(target, options);
    const nested = this.isNested();
    const outer = nested ? this.outerHold(target.key) : undefined;
    if (outer !== undefined) return whenReady(this.nest(outer, options));
    this.lifecycle.admit(target.resource, nested);
    const startedAt = this.leases.now();
    const scope = scopeAround();
    if (scope !== undefined) return this.acquireInScope(scope, target, { options, startedAt, nested });
    this.events.requested(target, options);
    const onGranted = (grant: Grant): Lock => {
      const lock = new Lock(grant, this.leases, options);
      this.events.granted(lock, target, grant.grantedAt - startedAt);
      return lock;
    };
    const onRefused = (reason: unknown): never => {
      nameCaller(reason, options.signal);
      this.events.refused(target, options, this.leases.now() - startedAt, reason);
      this.lifecycle.onEnded();
      throw reason;
    };
    return this.lines.acquire(target, options, startedAt, nested).then(onGranted, onRefused);
  }

  /**
   * Waits for several locks, with one `waitMs` for all, or joins the holds that the caller runs in. Releases all of
   * them if one cannot be acquired, or is lost before the last is acquired.
   */
  async acquireAll(targets: readonly Target[], options: AcquireOptions): Promise<MultiLock> {
    throwIfAborted(options.signal);
    this.checkStore(targets[0], options);
    const locks = new Map<string, Lock>();
    const waiting = new AbortController();
    const add = (lock: Lock): void => {
      locks.set(lock.key, lock);
      // Without this lock, waiting for the others is useless.
      lock.onAbort((reason) => waiting.abort(reason));
    };
    const subscription = onAbort(options.signal, (reason) => waiting.abort(reason));
    try {
      for (const { key } of targets) {
        const outer = locks.has(key) ? undefined : this.outerHold(key);
        if (outer !== undefined) add(this.nest(outer, options));
      }
      const others = targets.filter(({ key }) => !locks.has(key));
      if (others.length > 0) await this.acquireInOrder(others, { ...options, signal: waiting.signal }, add);
      // A nested hold may belong to a grant that another request of the lock scope still waits to use.
      for (const { grant } of locks.values()) if (grant.ready !== undefined) await grant.ready;
      for (const lock of locks.values()) lock.assertHeld();
      return new MultiLock(new Map(targets.map(({ resource, key }) => [resource, locks.get(key) as Lock])));
    } catch (reason) {
      for (const lock of locks.values()) {
        void lock.discard();
      }
      throw reason;
    } finally {
      subscription.stop();
    }
  }

  private async acquireInOrder(
    targets: readonly Target[],
    options: AcquireOptions,
    add: (lock: Lock) => void,
  ): Promise<void> {
    const nested = this.isNested();
    this.lifecycle.admit(targets[0].resource, nested);
    const call = { options, nested, startedAt: this.leases.now() };
    const { maxKeys = 1 } = this.store.capabilities;
    const groups = inLockOrder(targets, maxKeys);
    const missing = new Map(groups.flat().map((target) => [target.key, target]));
    for (const target of missing.values()) this.events.requested(target, options);
    try {
      for (const group of groups) {
        await this.acquireGroup(group, call, (given, target) => {
          missing.delete(target.key);
          add(given.lock);
          this.publishGrant(given, target, call);
        });
      }
    } catch (reason) {
      nameCaller(reason, options.signal);
      for (const target of missing.values()) this.publishRefusal(target, call, reason);
      throw reason;
    }
  }

  /** Acquires all locks of a group in one request, or one after the other if that request is refused. */
  private async acquireGroup(
    group: readonly Target[],
    call: AcquireCall,
    onGranted: (given: ScopedLock, target: Target) => void,
  ): Promise<void> {
    const { options, startedAt, nested } = call;
    const { mode, waitMs } = options;
    // The joint request is refused if a local caller holds one of the keys. With `waitMs: 0`, it is sent anyway, to get
    // the reason in its refusal.
    const scope = scopeAround();
    const isInScope = scope !== undefined && group.some(({ key }) => this.outerHold(key) !== undefined);
    if (group.length > 1 && !isInScope && (waitMs === 0 || !this.lines.hasExclusive(group))) {
      this.checkCall(group[0], call);
      const locks: Lock[] = [];
      const hold = (grant: Grant): void => void locks.push(this.hold(grant, options, scope));
      const outcome = await this.lines.acquireTogether(group, { ...options, onGranted: hold }, nested, startedAt);
      if (!('reply' in outcome)) return locks.forEach((lock, i) => onGranted({ lock, isNew: true }, group[i]));
      const { reply, target } = outcome;
      const now = this.leases.now();
      const place = this.lines.placeOf(target.key);
      const ownMethod = (): string | undefined => this.lines.methodAt(target.key);
      if (isFinal(reply) && isOver(reply, options, startedAt, now))
        throw acquireError(reply, { ...target, mode, waitMs, enteredAt: startedAt, now, place, ownMethod });
    }
    for (const target of group) {
      this.checkCall(target, call);
      onGranted(await this.acquireOne(target, call), target);
    }
  }

  private async acquireOne(target: Target, call: AcquireCall): Promise<ScopedLock> {
    const { options, startedAt, nested } = call;
    const scope = scopeAround();
    if (scope !== undefined) return this.waitInScope(scope, target, call);
    const grant = await this.lines.acquire(target, options, this.leases.now(), nested, startedAt);
    return { lock: new Lock(grant, this.leases, options), isNew: true };
  }

  /** Like `acquire`, for a caller that runs in a lock scope and is not inside a hold of the lock. */
  private async acquireInScope(scope: ScopeHold, target: Target, call: AcquireCall): Promise<Lock> {
    this.events.requested(target, call.options);
    try {
      const given = await this.waitInScope(scope, target, call);
      this.publishGrant(given, target, call);
      return given.lock;
    } catch (reason) {
      nameCaller(reason, call.options.signal);
      this.publishRefusal(target, call, reason);
      throw reason;
    }
  }

  private publishGrant({ lock, isNew }: ScopedLock, target: Target, { options, startedAt }: AcquireCall): void {
    if (isNew) this.events.granted(lock, target, lock.grant.grantedAt - startedAt);
    else this.events.refused(target, options, this.leases.now() - startedAt, grantedInScope(target), 'nested');
  }

  private publishRefusal(target: Target, { options, startedAt }: AcquireCall, reason: unknown): void {
    this.events.refused(target, options, this.leases.now() - startedAt, reason);
    this.lifecycle.onEnded();
  }

  /** Waits for a lock, or for a hold of it that another request in the caller's lock scopes gets during the wait. */
  private async waitInScope(scope: ScopeHold, target: Target, call: AcquireCall): Promise<ScopedLock> {
    const { options, startedAt, nested } = call;
    for (;;) {
      const outer = this.outerHold(target.key);
      if (outer !== undefined) return { lock: await whenReady(this.nest(outer, options)), isNew: false };
      this.checkCall(target, call);
      const request = new ScopedRequest(scope, this.leases, target.key);
      const either = eitherOf(options.signal, request.signal);
      let lock: Lock | undefined;
      // Runs before any other code, because the scopes may end, and other requests in them wait for this lock.
      const onGranted = (grant: Grant): void => {
        request.end();
        lock = this.hold(grant, options, scope);
      };
      try {
        const waiting = { ...options, signal: either.signal, onGranted };
        await this.lines.acquire(target, waiting, this.leases.now(), nested, startedAt);
      } catch (reason) {
        throwIfAborted(options.signal);
        if (!request.wasJoined) throw reason;
      } finally {
        either.stop();
        request.end();
      }
      if (lock !== undefined) return { lock, isNew: true };
    }
  }

  /** @throws LockConfigError if the store does not support the mode or the lease. */
  checkStore({ resource }: Target, options: AcquireOptions): void {
    const { capabilities } = this.store;
    const { mode } = options;
    if (mode !== 'exclusive' && !capabilities.modes.includes(kindOf(mode)))
      throw unsupportedMode(resource, mode, capabilities);
    const tooShort = tooShortLease(leaseOf(options), capabilities, resource);
    if (tooShort !== undefined) throw tooShort;
  }

  /** Throws if the caller's signal has aborted or the shutdown has begun since the last step of the call. */
  private checkCall(target: Target, { options, nested }: AcquireCall): void {
    throwIfAborted(options.signal);
    this.lifecycle.admit(target.resource, nested);
  }

  /** Returns true if the caller runs in a hold of this engine. */
  private isNested(): boolean {
    return heldAround(this.leases) !== undefined;
  }

  /** Returns the innermost hold of that key around the caller. */
  private outerHold(key: string): Lock | undefined {
    return heldAround(this.leases, key);
  }

  private nest(outer: Lock, options: AcquireOptions): Lock {
    outer.assertHeld();
    const { grant, resource } = outer;
    if (grant.mode !== 'exclusive' && grant.mode !== options.mode) {
      throw upgradeError(resource, grant.mode, options.mode);
    }
    return this.hold(grant, options, scopeAround());
  }

  /** Returns a hold of a grant, which the scope and the scopes around it keep. */
  private hold(grant: Grant, options: AcquireOptions, scope: ScopeHold | undefined): Lock {
    const lock = new Lock(grant, this.leases, options);
    scope?.keep(grant, this.leases, options.onLost);
    return lock;
  }
}

/** Returns the error recorded for a request that has become a nested hold. */
function grantedInScope({ resource }: Target): LockReentryError {
  return new LockReentryError(`${resource} was granted to another request of the caller's lock scope.`, { resource });
}

/** Returns true if a caller that got this reply to its request no longer waits. */
function isOver(reply: LastReply, options: AcquireOptions, startedAt: number, now: number): boolean {
  const limitMs = storeLimitOf(reply, options);
  if (reply.kind === 'failed' && limitMs !== Infinity) return now - reply.since >= limitMs;
  return now >= startedAt + options.waitMs;
}

/** Returns true if single requests cannot change the result for a caller that has no time left. */
function isFinal(reply: LastReply): boolean {
  // The store may be unable to acquire several keys in one request.
  if (reply.kind === 'failed') return !reply.error.permanent;
  if (reply.kind === 'undelivered') return false;
  // A free key with a queue has no expiry. Only a request for that key alone can find that its queue is dead.
  return reply.kind !== 'held' || reply.until !== undefined;
}

/** Returns a nested hold when its caller may use it. The request that got the lock may also wait for that. */
function whenReady(lock: Lock): Promise<Lock> {
  const { ready } = lock.grant;
  return ready === undefined ? Promise.resolve(lock) : ready.then(() => lock);
}
