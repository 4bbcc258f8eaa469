import { eitherOf, onAbort, throwIfAborted } from '../abort-signals.js';
import type { LockEvents } from '../diagnostics.js';
import { LockReentryError } from '../errors.js';
import { heldAround } from '../hold/held-locks.js';
import { isAwaitedInScopes, keepInScopes, ScopedRequest } from '../hold/lock-scope.js';
import { Lock } from '../hold/lock.js';
import { MultiLock } from '../hold/multi-lock.js';
import type { Grant } from '../lease/grant.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import { kindOf, modesOf } from '../store/lock-mode.js';
import type { LockStore } from '../store/lock-store.js';
import {
  acquireError,
  closed,
  type LastReply,
  tooShortLease,
  unsupportedMode,
  upgradeError,
} from './acquire-errors.js';
import { type AcquireOptions, leaseOf, type Target } from './acquire-options.js';
import type { LocalLocks } from './local-locks.js';
import { inLockOrder } from './lock-order.js';

/** `draining` admits only callers that run in a hold, so that the hold can finish. `closed` admits none. */
export type AcquirerPhase = 'open' | 'draining' | 'closed';

/** One call of `acquire` or `acquireAll` that needs a request. */
interface AcquireCall {
  readonly options: AcquireOptions;
  readonly startedAt: number;
  /** Whether the caller runs in a hold of this engine. */
  readonly nested: boolean;
}

/** Gives callers their locks: a nested hold of a lock that the caller holds, or a new one from the local locks. */
export class Acquirer {
  phase: AcquirerPhase = 'open';

  constructor(
    private readonly store: Pick<LockStore, 'capabilities'>,
    private readonly localLocks: LocalLocks,
    private readonly leases: LeaseManager,
    private readonly events: LockEvents,
  ) {}

  /** Waits for the lock, or joins the hold that the caller runs in. */
  async acquire(target: Target, options: AcquireOptions): Promise<Lock> {
    throwIfAborted(options.signal);
    this.checkStore(target, options);
    const outer = this.outerHold(target.key);
    if (outer !== undefined) return this.nest(outer, options);
    const nested = this.isNested();
    this.checkPhase(target, nested);
    const startedAt = this.leases.now();
    // It is going to be a nested hold, which is no request, unless the other request of the scope fails.
    const isBehind = isAwaitedInScopes(this.leases, target.key);
    if (!isBehind) this.events.requested(target);
    let given: Grant | Lock;
    try {
      given = await this.wait(target, { options, startedAt, nested });
    } catch (reason) {
      if (isBehind) this.events.requested(target);
      this.events.refused(target, this.leases.now() - startedAt, reason);
      throw reason;
    }
    if (given instanceof Lock) {
      if (!isBehind) this.events.refused(target, this.leases.now() - startedAt, grantedInScope(target));
      return given;
    }
    if (isBehind) this.events.requested(target);
    this.events.granted(given, given.grantedAt - startedAt);
    return this.hold(given, options);
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
      // Without it, waiting for the others is useless.
      lock.signal.addEventListener('abort', () => waiting.abort(lock.signal.reason), { once: true });
    };
    const subscription = onAbort(options.signal, (reason) => waiting.abort(reason));
    try {
      for (const { key } of targets) {
        const outer = locks.has(key) ? undefined : this.outerHold(key);
        if (outer !== undefined) add(this.nest(outer, options));
      }
      const others = targets.filter(({ key }) => !locks.has(key));
      if (others.length > 0) await this.acquireInOrder(others, { ...options, signal: waiting.signal }, add);
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
    this.checkPhase(targets[0], nested);
    const call = { options, nested, startedAt: this.leases.now() };
    const { maxKeys = 1 } = this.store.capabilities;
    const groups = inLockOrder(targets, maxKeys);
    const missing = new Map(groups.flat().map((target) => [target.key, target]));
    for (const target of missing.values()) this.events.requested(target);
    try {
      for (const group of groups) {
        await this.acquireGroup(group, call, (given, target) => {
          missing.delete(target.key);
          if (given instanceof Lock) {
            add(given);
            this.events.refused(target, this.leases.now() - call.startedAt, grantedInScope(target));
            return;
          }
          add(this.hold(given, options));
          this.events.granted(given, given.grantedAt - call.startedAt);
        });
      }
    } catch (reason) {
      for (const target of missing.values()) this.events.refused(target, this.leases.now() - call.startedAt, reason);
      throw reason;
    }
  }

  /** Acquires all locks of a group in one request, or one after the other if that is refused. */
  private async acquireGroup(
    group: readonly Target[],
    call: AcquireCall,
    onGranted: (given: Grant | Lock, target: Target) => void,
  ): Promise<void> {
    const { options, startedAt, nested } = call;
    const { mode, waitMs } = options;
    // If a caller here has one of the keys, the request would be refused. A caller that does not wait learns the reason
    // by it.
    if (group.length > 1 && (waitMs === 0 || !this.localLocks.hasExclusive(group))) {
      this.checkCall(group[0], call);
      const outcome = await this.localLocks.acquireTogether(group, options, nested);
      if (!('reply' in outcome)) return outcome.forEach((grant, i) => onGranted(grant, group[i]));
      const { reply, target } = outcome;
      const now = this.leases.now();
      if (now >= startedAt + waitMs && isFinal(reply))
        throw acquireError(reply, { ...target, mode, waitMs, enteredAt: startedAt, now });
    }
    for (const target of group) {
      this.checkCall(target, call);
      // Another request of the caller's lock scopes may have been granted it since.
      const outer = this.outerHold(target.key);
      onGranted(outer === undefined ? await this.wait(target, call) : this.nest(outer, options), target);
    }
  }

  /** Waits for a lock. Returns a nested hold if another request of the caller's lock scopes is granted it meanwhile. */
  private wait(target: Target, call: AcquireCall): Promise<Grant | Lock> {
    const { options, startedAt, nested } = call;
    const request = ScopedRequest.begin(this.leases, target.key);
    if (request !== undefined) return this.waitInScope(request, target, call);
    return this.localLocks.acquire(target, options, startedAt, nested);
  }

  private async waitInScope(request: ScopedRequest, target: Target, call: AcquireCall): Promise<Grant | Lock> {
    const { options, startedAt, nested } = call;
    const either = eitherOf(options.signal, request.signal);
    try {
      return await this.localLocks.acquire(target, { ...options, signal: either.signal }, startedAt, nested);
    } catch (reason) {
      if (!request.wasJoined(reason)) throw reason;
    } finally {
      either.stop();
      request.end();
    }
    this.checkCall(target, call);
    const outer = this.outerHold(target.key);
    return outer === undefined ? this.wait(target, call) : this.nest(outer, options);
  }

  /** @throws LockConfigError if the store has no such mode or no such lease. */
  private checkStore({ resource }: Target, options: AcquireOptions): void {
    const { capabilities } = this.store;
    const { mode } = options;
    if (mode !== 'exclusive' && !modesOf(capabilities).includes(kindOf(mode)))
      throw unsupportedMode(resource, mode, capabilities);
    const tooShort = tooShortLease(leaseOf(options), capabilities, resource);
    if (tooShort !== undefined) throw tooShort;
  }

  /** Throws if the caller's signal has aborted or the shutdown has begun since the last step of its call. */
  private checkCall(target: Target, { options, nested }: AcquireCall): void {
    throwIfAborted(options.signal);
    this.checkPhase(target, nested);
  }

  private checkPhase({ resource }: Target, nested: boolean): void {
    if (this.phase === 'closed' || (this.phase === 'draining' && !nested)) throw closed(resource);
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
    const { shared: grant, resource, isKept } = outer;
    if (grant.mode !== 'exclusive' && grant.mode !== options.mode) {
      throw upgradeError(resource, grant.mode, options.mode);
    }
    // Only a lock that a scope keeps may have no use any more.
    if (options.reentrant || !grant.isInUse) return this.hold(grant, options);
    const holder = isKept ? "the caller's lock scope, in which another use has not ended" : 'the caller';
    throw new LockReentryError(`${resource} is already held by ${holder}, and \`reentrant\` is false.`, { resource });
  }

  /** Returns a hold of a grant, which the caller's lock scopes keep. */
  private hold(grant: Grant, { onLost }: AcquireOptions): Lock {
    const lock = new Lock(grant, this.leases);
    keepInScopes(grant, this.leases, onLost);
    return lock;
  }
}

/** Returns the reason of a request that has become a nested hold. */
function grantedInScope({ resource }: Target): LockReentryError {
  return new LockReentryError(`${resource} was granted to another request of the caller's lock scope.`, { resource });
}

/** Returns true if single requests would bring nothing else to a caller without time left. */
function isFinal(reply: LastReply): boolean {
  // The store may be unable to acquire several keys at once.
  if (reply.kind === 'failed') return !reply.error.permanent;
  // A free key with a queue has no expiry: only a request for that key alone finds out that its queue is dead.
  return reply.kind !== 'held' || reply.until !== undefined;
}
