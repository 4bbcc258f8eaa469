import type { Grant } from '../lease/grant.js';
import type { Handoff, KeyFilter, LockMode, StoreListener } from '../store/lock-store.js';
import { closed } from './acquire-errors.js';
import type { AcquireDeps, Target, WaitOptions } from './acquire-options.js';
import { LocalLock, type LocalLockRegistry } from './local-lock.js';
import { MultiAcquire, type Obstacle } from './multi-acquire.js';
import { WantedKeys } from './wanted-keys.js';

type LocalLocksListener = Pick<
  StoreListener,
  'onHandoff' | 'onReleased' | 'onSubscribed' | 'onDisconnected' | 'onReconnected' | 'onWanted'
>;

const NO_LOCKS: ReadonlySet<LocalLock> = new Set();

/**
 * The local locks of the keys that are in use in one module instance. All callers that want a key exclusively share
 * one. Each caller that wants it shared has one of its own, and so has each lock that was acquired together with
 * others. Those are granted and lost one by one.
 */
export class LocalLocks implements LocalLockRegistry, LocalLocksListener {
  /** By key. */
  private readonly exclusive = new Map<string, LocalLock>();
  /** By key. */
  private readonly shared = new Map<string, Set<LocalLock>>();
  /** The local locks of shared modes by the owner of their last attempt. */
  private readonly byOwner = new Map<string, LocalLock>();
  /** The local locks of locks that were acquired together. No caller waits there. */
  private readonly adopted = new Set<LocalLock>();
  private readonly multiAcquires = new Set<MultiAcquire>();
  private readonly wanted: WantedKeys;
  /** Whether the shutdown has begun. */
  private isClosing = false;

  constructor(private readonly deps: AcquireDeps) {
    this.wanted = new WantedKeys(deps);
  }

  /** How many entries are kept, 0 if nothing is in use. @internal */
  get size(): number {
    let { size } = this.byOwner;
    for (const locks of this.shared.values()) size += locks.size;
    return size + this.exclusive.size + this.adopted.size + this.multiAcquires.size;
  }

  /** Waits for the lock. See {@link LocalLock.acquire}. */
  acquire({ resource, key }: Target, options: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    // Another mode has a local lock of its own, which would wait for the kept one.
    if (options.mode !== 'exclusive') this.exclusive.get(key)?.endKeeping();
    return this.open(key, options.mode).acquire(resource, options, now, nested);
  }

  /** Returns true if a caller here holds one of the keys exclusively, or waits for that. */
  hasExclusive(targets: readonly Target[]): boolean {
    return targets.some(({ key }) => this.exclusive.get(key)?.isKept === false);
  }

  /** Acquires all of them in one request, without waiting for other holders. See {@link MultiAcquire.send}. */
  async acquireTogether(
    targets: readonly Target[],
    options: WaitOptions,
    nested: boolean,
  ): Promise<readonly Grant[] | Obstacle> {
    for (const { key } of targets) this.exclusive.get(key)?.endKeeping();
    const request = new MultiAcquire(targets, options, nested, this.deps, (given, now) => {
      const adopt = ({ resource, key }: Target) => this.adopt(key, options.mode).adopt(resource, options, given, now);
      const grants = targets.map(adopt);
      for (const grant of grants) options.onGranted?.(grant);
      return grants;
    });
    this.multiAcquires.add(request);
    try {
      return await request.send();
    } finally {
      this.multiAcquires.delete(request);
    }
  }

  register(lock: LocalLock, owner: string): void {
    this.byOwner.delete(lock.owner);
    this.byOwner.set(owner, lock);
  }

  forget(lock: LocalLock): void {
    if (this.adopted.delete(lock)) return;
    const { key, mode, owner } = lock;
    if (mode === 'exclusive') {
      if (this.exclusive.get(key) === lock) this.exclusive.delete(key);
      return;
    }
    this.byOwner.delete(owner);
    const locks = this.shared.get(key);
    if (locks?.delete(lock) && locks.size === 0) this.shared.delete(key);
  }

  canKeep(key: string): boolean {
    return !this.isClosing && !this.wanted.has(key) && this.deps.store.canKeep?.(key) === true;
  }

  onWanted(key: string): void {
    const lock = this.exclusive.get(key);
    if (lock === undefined) return;
    this.wanted.add(key);
    lock.onWanted();
  }

  /** The store may have lost locks that are kept, and nobody renews them. */
  onReconnected(concerns?: KeyFilter): void {
    for (const lock of this.all(concerns)) lock.onWanted();
  }

  onHandoff(handoff: Handoff): void {
    const { owner, leaseMs } = handoff;
    const [key] = handoff.keys;
    const lock = handoff.mode === 'exclusive' ? this.exclusive.get(key) : this.byOwner.get(owner);
    if (lock?.onHandoff(handoff)) return;
    // No caller here waits for it any more: the next owner in the store's queue must get it.
    const mode = lock?.mode ?? handoff.mode;
    this.deps.releaser.releaseBehind({ resource: key, key, owner, mode, leaseMs, keepUntil: 0 });
  }

  onReleased(key: string): void {
    this.deps.turns?.onOthersSeen(key);
    for (const lock of this.at(key)) lock.onReleasedByOthers();
  }

  onSubscribed(concerns?: KeyFilter): void {
    for (const lock of this.all(concerns)) lock.retryNow();
  }

  onDisconnected(concerns?: KeyFilter): void {
    for (const lock of this.all(concerns)) lock.onDisconnected();
    for (const request of this.multiAcquires) if (concerns?.(request.key) !== false) request.onDisconnected();
  }

  /** Rejects all callers that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    this.isClosing = true;
    for (const lock of this.all()) lock.refuseOutsiders();
    for (const request of this.multiAcquires) if (!request.nested) request.refuse(closed(request.resource));
  }

  /** Rejects all callers and cancels all timers. */
  close(): void {
    for (const lock of [...this.all(), ...this.adopted]) lock.close();
    for (const request of this.multiAcquires) request.refuse(closed(request.resource));
  }

  /** Yields the local locks of a key, without adopted ones. @internal */
  *at(key: string): Generator<LocalLock> {
    const lock = this.exclusive.get(key);
    if (lock !== undefined) yield lock;
    yield* this.shared.get(key) ?? NO_LOCKS;
  }

  private adopt(key: string, mode: LockMode): LocalLock {
    const lock = new LocalLock(key, mode, this.deps, this);
    this.adopted.add(lock);
    return lock;
  }

  /** Returns the key's exclusive local lock, or a new one for a shared mode. */
  private open(key: string, mode: LockMode): LocalLock {
    const known = mode === 'exclusive' ? this.exclusive.get(key) : undefined;
    if (known !== undefined) return known;
    const lock = new LocalLock(key, mode, this.deps, this);
    if (mode === 'exclusive') this.exclusive.set(key, lock);
    else this.shared.set(key, (this.shared.get(key) ?? new Set()).add(lock));
    return lock;
  }

  private *all(concerns: KeyFilter = () => true): Generator<LocalLock> {
    for (const [key, lock] of this.exclusive) if (concerns(key)) yield lock;
    for (const [key, locks] of this.shared) if (concerns(key)) yield* locks;
  }
}
