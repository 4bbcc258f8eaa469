import type { Lock } from '../../../lib/engine/lock.js';
import type { LockEngine } from '../../../lib/engine/lock-engine.js';
import { driftOf } from '../../../lib/clock/clock.js';
import { leaseOf } from '../../../lib/engine/options.js';
import type { AcquireRequest, ReleaseRequest, TransferRequest } from '../../../lib/contract/store.js';
import type { LockTable } from '../../../lib/stores/memory/lock-table.js';

/** The label of calls for several locks: such a call keeps its number, although it joins later queues later. */
export const SEVERAL = 'several';

/** What one owner has asked for. */
interface OwnerRecord {
  readonly mode: AcquireRequest['mode'];
  isAsking: boolean;
  /** Whether it has had the lock. A place in the queue is then of a request that ran late, and no use. */
  hasHeld: boolean;
  isReleased: boolean;
}

/** Checks the invariants of `lib/engine/README.md` while the callers run. */
export class Referee {
  readonly violations = new Set<string>();
  grants = 0;
  /** Whether a replica has brought back what was over. */
  hasFailedOver = false;
  /** Called with the key of each grant. */
  onGrant: (key: string) => void = () => undefined;
  private readonly holders = new Map<string, Set<Lock>>();
  /** The last grant of each key. One that several callers of a lock scope use, one after the other, is the same. */
  private readonly lastGrants = new Map<string, Lock>();
  /** The keys on which exclusion was broken on purpose, until this moment. */
  private readonly excused = new Map<string, number>();
  private readonly closedUntil = new Map<string, number>();
  /** By owner. */
  private readonly owners = new Map<string, OwnerRecord>();
  /** The owners whose locks were released by force, and that got the message. */
  private readonly forced = new Set<string>();
  private readonly toldAt = new Map<string, number>();

  constructor(
    private readonly now: () => number,
    private readonly table: LockTable,
  ) {}

  report(violation: string): void {
    this.violations.add(violation);
  }

  // What the callers do.

  /** Called when work begins under a lock. @param isResumed whether a ticket has kept its token. */
  enter(lock: Lock, isResumed = false): void {
    const { key, root, mode } = lock;
    const others = this.holders.get(key) ?? new Set();
    this.holders.set(key, others);
    this.grants += 1;
    const owner = this.owners.get(lock.lease.owner);
    if (owner !== undefined) owner.hasHeld = true;
    this.onGrant(key);
    // A lock whose local deadline has passed excludes nobody.
    const valid = [...others].filter((other) => other !== root && other.expiresInMs > 0);
    const isExcused = this.isExcused(key);
    if (!isExcused) this.compare(lock, valid);
    const last = this.lastGrants.get(key);
    if (mode === 'exclusive' && !isExcused && last !== root) {
      const lastToken = last?.fencingToken ?? 0;
      if (lock.fencingToken < lastToken + (isResumed ? 0 : 1))
        this.report(`${key}: token ${lock.fencingToken} after ${lastToken}`);
      this.lastGrants.set(key, root);
      const closedUntil = this.closedUntil.get(key) ?? 0;
      if (this.now() < closedUntil) this.report(`${key}: granted before the end of minHoldMs`);
    }
    others.add(root);
  }

  /** Called right after the grant of a lock to a caller of its own, before anything else can happen. */
  start(engine: LockEngine, lock: Lock, wanted: Lock['mode']): void {
    const { key, root, mode, options } = lock;
    if (mode !== wanted && mode !== 'exclusive') this.report(`${key}: ${String(mode)} for ${String(wanted)}`);
    if (root !== lock) return;
    // A message before the reply only means that the grant has to be renewed.
    if (lock.lease.grantedAt < (this.toldAt.get(lock.lease.owner) ?? -Infinity))
      this.report(`${key}: passed on although the instance was notified of a release by force`);
    // A caller may get a lease that was asked for by one that wanted a shorter one. It is renewed at once.
    const leaseMs = Math.min(leaseOf(options), lock.lease['leaseMs']);
    const least = leaseMs / 2 - driftOf(leaseMs) - 1;
    if (lock.lease.deadline - this.now() < least) this.report(`${key}: granted below half of its lease`);
    const earlier = engine
      .waiting(key)
      .find(({ target, options: { label } }) => label !== SEVERAL && (target.call ?? 0) < lock.call);
    if (earlier !== undefined) this.report(`${key}: granted before an earlier caller of the instance`);
  }

  /** Called when the caller's own hold has ended. */
  leave(lock: Lock): void {
    const { key, root } = lock;
    this.holders.get(key)?.delete(root);
    if (root !== lock || !root.isAlive || root.mode !== 'exclusive' || this.isExcused(key)) return;
    this.closedUntil.set(key, Math.max(this.closedUntil.get(key) ?? 0, root.minHoldUntil));
  }

  /** Somebody releases the key by force, or the server loses it: its holders learn of it later. */
  excuse(key: string, forMs: number): void {
    this.excused.set(key, Math.max(this.excused.get(key) ?? 0, this.now() + forMs));
    this.closedUntil.delete(key);
  }

  private isExcused(key: string): boolean {
    return (this.excused.get(key) ?? -Infinity) >= this.now();
  }

  private compare({ key, mode }: Lock, others: readonly Lock[]): void {
    const bad = others.find((other) => mode === 'exclusive' || other.mode !== mode);
    if (bad !== undefined) this.report(`${key}: ${String(mode)} beside ${String(bad.mode)}`);
    if (typeof mode === 'number' && others.length >= mode)
      this.report(`${key}: ${others.length + 1} of ${mode} permits`);
  }

  // What an engine assumes.

  /** An assumed hold is the server's holder until its deadline, and ends then. */
  look(engine: LockEngine, isAwake: boolean): void {
    for (const lock of engine.holds()) {
      const { key, lease, deadline } = lock;
      const isHolder = this.table.holders(key).some(({ owner }) => owner === lease.owner);
      if (lock.expiresInMs > 0 && !isHolder && !this.isExcused(key)) this.report(`${key}: trusted, but not held`);
      if (isAwake && this.now() > deadline + 250) this.report(`${key}: outlives its deadline`);
    }
  }

  // What an engine sends and receives.

  onAcquire({ key, owner, mode }: AcquireRequest): void {
    const record = this.owners.get(owner) ?? { mode, isAsking: false, hasHeld: false, isReleased: false };
    this.owners.set(owner, record);
    if (record.isReleased) this.report(`${key}: an owner that is over asks`);
    if (record.isAsking) this.report(`${key}: two requests of one owner are on their way`);
    if (record.mode !== mode) this.report(`${key}: an owner changes its mode`);
    record.isAsking = true;
  }

  /** Called with each outcome of an acquire request. */
  onOutcome({ key, owner }: AcquireRequest): void {
    const record = this.owners.get(owner);
    if (record !== undefined) record.isAsking = false;
    // The lock was granted again since it was released by force.
    if (this.table.holders(key).some((holder) => holder.owner === owner)) this.forced.delete(owner);
  }

  /**
   * @param isAwaited whether the first caller that waits could use the owner's place in the queue.
   * @param isGivenUp whether the instance is about to end its connection, and waits for no reply.
   */
  onRelease({ key, owner }: ReleaseRequest, isAwaited: boolean, isGivenUp: boolean): void {
    const record = this.owners.get(owner);
    const hasPlace = this.table.waiting(key).some((entry) => entry.owner === owner);
    if (isAwaited && hasPlace && record?.isReleased === false && !record.hasHeld && !this.hasFailedOver)
      this.report(`${key}: a place is given up that is needed`);
    if (record?.isAsking === true && !isGivenUp)
      this.report(`${key}: a release leaves beside the request of its owner`);
    if (record !== undefined) record.isReleased = true;
  }

  /** An owner that gives its lock away is over. */
  onTransfer({ from, to }: TransferRequest): void {
    const record = this.owners.get(from);
    if (record !== undefined && from !== to) record.isReleased = true;
  }

  onForce(key: string): void {
    for (const { owner } of this.table.holders(key)) this.forced.add(owner);
  }

  /** Called when an instance has read a message. */
  onWake(owner: string): void {
    if (this.forced.has(owner) && !this.toldAt.has(owner)) this.toldAt.set(owner, this.now());
  }
}
