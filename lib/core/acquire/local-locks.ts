import type { Grant } from '../lease/grant.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { closed, outageError } from './acquire-errors.js';
import {
  type AcquireDeps,
  leaseOf,
  outageFor,
  READERS_PER_PLACE,
  type Target,
  type WaitingCaller,
  type WaitOptions,
} from './acquire-options.js';
import { LocalLock, type LocalLockRegistry } from './local-lock.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import type { Share } from './share.js';
import { SharedLocalLock, type SharedLocalLockRegistry } from './shared-local-lock.js';
import type { WaiterCount } from './waiters.js';
import type { WaitingCallers } from './waiting-callers.js';

type LocalLocksListener = Pick<StoreListener, 'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected'>;

const NO_LOCKS: ReadonlySet<SharedLocalLock> = new Set();

/** The local locks of those that share one key, and how many callers with a place of their own wait there. */
class SharedLocks extends Set<SharedLocalLock> implements WaiterCount {
  waiting = 0;
}

/**
 * The local locks of the keys that are in use in one module instance. All callers that want a key exclusively share
 * one. So do all that share it in one mode, with the same lease. Each lock that was acquired together with others has
 * one of its own.
 */
export class LocalLocks implements LocalLockRegistry, SharedLocalLockRegistry, LocalLocksListener {
  /** By key. */
  private readonly exclusive = new Map<string, LocalLock>();
  /** By key. */
  private readonly shared = new Map<string, SharedLocks>();
  /** By the owner of their last attempt. */
  private readonly shares = new Map<string, Share>();
  /** The local locks of locks that were acquired together. No caller waits there. */
  private readonly adopted = new Set<LocalLock>();
  private readonly multiAcquires = new Set<MultiAcquire>();

  constructor(private readonly deps: AcquireDeps) {}

  /** How many entries are kept, 0 if nothing is in use. @internal */
  get size(): number {
    let { size } = this.shares;
    for (const locks of this.shared.values()) size += locks.size;
    return size + this.exclusive.size + this.adopted.size + this.multiAcquires.size;
  }

  /** Waits for the lock. See {@link LocalLock.acquire} and {@link LocalLock.refuseAtOnce}. */
  acquire(target: Target, options: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    const local = options.mode === 'exclusive' ? this.open(target.key) : this.openShared(target, options);
    const waiting = this.waitingBeside(local);
    if (waiting >= this.longestLine(local.mode, options)) return local.refuseAtOnce(target, options, now, waiting);
    return local.acquire(target.resource, options, now, nested, target.call);
  }

  /** Returns true if a caller here holds one of the keys exclusively, or waits for that. */
  hasExclusive(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.exclusive.has(key));
  }

  /** Acquires all of them in one request, without waiting for other holders. See {@link MultiAcquire.send}. */
  async acquireTogether(
    targets: readonly Target[],
    options: WaitOptions,
    nested: boolean,
    enteredAt: number,
  ): Promise<readonly Grant[] | Obstacle> {
    if (this.deps.health.isAnySilent) this.checkOutage(targets[0], options, enteredAt);
    const request = new MultiAcquire(targets, options, { nested, enteredAt }, this.deps, (given, now) => {
      const adopt = ({ resource, key }: Target) => this.adopt(key, options.mode).adopt(resource, options, given, now);
      const grants = targets.map(adopt);
      grants.forEach((grant, i) => (grant.call = targets[i].call ?? 0));
      for (const grant of grants) options.onGranted?.(grant);
      options.onGranted = undefined;
      return grants;
    });
    this.multiAcquires.add(request);
    try {
      return await request.send();
    } finally {
      this.multiAcquires.delete(request);
    }
  }

  register(share: Share, owner: string): void {
    this.shares.delete(share.owner);
    this.shares.set(owner, share);
  }

  unregister(share: Share): void {
    this.shares.delete(share.owner);
  }

  forget(lock: LocalLock): void {
    if (this.adopted.delete(lock)) return;
    if (this.exclusive.get(lock.key) === lock) this.exclusive.delete(lock.key);
  }

  forgetShared(lock: SharedLocalLock): void {
    const locks = this.shared.get(lock.key);
    if (locks?.delete(lock) && locks.size === 0) this.shared.delete(lock.key);
  }

  /** The next caller must not count on a lock that somebody may have released by force. */
  onForceReleased(key: string): void {
    this.exclusive.get(key)?.onForceReleased();
    for (const shared of this.shared.get(key) ?? NO_LOCKS) shared.onForceReleased();
  }

  onHandoff(handoff: Handoff): void {
    const { owner, leaseMs } = handoff;
    const [key] = handoff.keys;
    const place = handoff.mode === 'exclusive' ? this.exclusive.get(key) : this.shares.get(owner);
    if (place?.onHandoff(handoff)) return;
    // No caller here waits for it any more: the next owner in the store's queue must get it.
    const mode = place?.mode ?? handoff.mode;
    this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, closedUntil: 0 });
  }

  onReleased(key: string): void {
    this.deps.turns?.onOthersSeen(key);
    for (const { loop } of this.at(key)) loop.onReleasedByOthers();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const { loop } of this.places(concerns)) loop.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    for (const { loop } of this.places(concerns)) loop.onDisconnected();
    for (const request of this.multiAcquires) if (concerns?.(request.key) !== false) request.onDisconnected();
  }

  /** Called if a server is seen to be silent. Rejects the callers that wait no longer for it. */
  onSilent(): void {
    for (const callers of this.callers()) callers.refuseIfUnavailable();
    for (const request of this.multiAcquires) request.refuseIfUnavailable();
  }

  /** Rejects the callers for whose work nobody waits, unless they run in a hold of this engine. */
  refuseBackground(): void {
    for (const callers of this.callers()) callers.refuseBackground();
    for (const request of this.multiAcquires) if (request.isBackground) request.refuse(closed(request.resource));
  }

  /** Rejects all callers that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    for (const callers of this.callers()) callers.refuseOutsiders();
    for (const request of this.multiAcquires) if (!request.caller.nested) request.refuse(closed(request.resource));
  }

  /** Rejects all callers and cancels all timers. */
  close(): void {
    for (const callers of [...this.callers(), ...this.adopted]) callers.close();
    for (const request of this.multiAcquires) request.refuse(closed(request.resource));
  }

  /** Yields what requests or holds a key, without adopted locks. @internal */
  *at(key: string): Generator<LocalLock | Share> {
    const lock = this.exclusive.get(key);
    if (lock !== undefined) yield lock;
    for (const shared of this.shared.get(key) ?? NO_LOCKS) yield* shared.shares();
  }

  /** Yields the keys for which callers wait behind a holder of this instance. */
  *keysBehindOwn(): Generator<string> {
    for (const callers of this.callers()) if (callers.isBehindOwn) yield callers.key;
  }

  /** Yields the callers that wait for a lock, or for the reply to a request for several. */
  *waiting(): Generator<WaitingCaller> {
    for (const { key, waiters } of this.callers())
      for (const { resource, call, options, enteredAt } of waiters) yield { resource, key, call, options, enteredAt };
    for (const request of this.multiAcquires) yield* request.waiting();
  }

  /** Returns how many callers wait for a key. */
  waitingAt(key: string): number {
    let waiting = this.exclusive.get(key)?.length ?? 0;
    for (const { length } of this.shared.get(key) ?? NO_LOCKS) waiting += length;
    return waiting;
  }

  /** @throws LockUnavailableError if a caller with these options does not wait for the silent server of the target. */
  private checkOutage({ resource, key }: Target, options: WaitOptions, enteredAt: number): void {
    const { health, clock } = this.deps;
    const outage = outageFor(health, key, options);
    if (outage !== undefined) throw outageError(resource, outage, clock.now() - enteredAt);
  }

  /** Returns how many callers of the key count for `maxWaiting`, as seen by a caller that comes to this local lock. */
  private waitingBeside({ key, mode, length }: LocalLock | SharedLocalLock): number {
    // Nearly always nobody shares anything: a lookup for each lock costs more than the size.
    if (this.shared.size === 0 || this.haveOnePlace(mode)) return length;
    const exclusive = mode === 'exclusive' ? length : (this.exclusive.get(key)?.length ?? 0);
    return exclusive + (this.shared.get(key)?.waiting ?? 0);
  }

  private longestLine(mode: LockMode, { maxWaiting = Infinity }: WaitOptions): number {
    return this.haveOnePlace(mode) ? maxWaiting * READERS_PER_PLACE : maxWaiting;
  }

  /** Returns whether all callers of a mode wait at one place, and are served together. */
  private haveOnePlace(mode: LockMode): boolean {
    return mode === 'shared' && this.deps.passing.maxLocalPasses > 0;
  }

  private adopt(key: string, mode: LockMode): LocalLock {
    const lock = new LocalLock(key, mode, this.deps, this);
    this.adopted.add(lock);
    return lock;
  }

  /** Returns the local lock of those that want the key exclusively. */
  private open(key: string): LocalLock {
    const known = this.exclusive.get(key);
    if (known !== undefined) return known;
    const lock = new LocalLock(key, 'exclusive', this.deps, this);
    this.exclusive.set(key, lock);
    return lock;
  }

  /** Returns the local lock of those that share the key alike. In strict order, a new one. */
  private openShared(target: Target, options: WaitOptions): SharedLocalLock {
    const { mode } = options;
    const leaseMs = leaseOf(options);
    const locks = this.shared.get(target.key) ?? new SharedLocks();
    if (this.deps.passing.maxLocalPasses > 0)
      for (const lock of locks) if (lock.isFor(target.resource, mode, leaseMs)) return lock;
    const total = this.haveOnePlace(mode) ? undefined : locks;
    const lock = new SharedLocalLock(target, mode, leaseMs, this.deps, this, total);
    this.shared.set(target.key, locks.add(lock));
    return lock;
  }

  private *callers(): Generator<WaitingCallers> {
    yield* this.exclusive.values();
    for (const locks of this.shared.values()) yield* locks;
  }

  private *places(concerns: KeyFilter = () => true): Generator<LocalLock | Share> {
    for (const key of new Set([...this.exclusive.keys(), ...this.shared.keys()]))
      if (concerns(key)) yield* this.at(key);
  }
}
