import type { LockError } from '../errors.js';
import { cutTo, Grant, type GrantEnder, keepMsOf, type Lease, type StoreGrant } from '../lease/grant.js';
import { type Handoff, instanceOf, type LockMode, mayBeKept } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';
import { acquireError, closed, type CurrentHolder, heldUntil, type LastReply, NO_REPLY } from './acquire-errors.js';
import { AcquireLoop, type AcquireLoopListener, type AcquireParams } from './acquire-loop.js';
import { type AcquireDeps, leaseOf, type WaitOptions } from './acquire-options.js';
import { KEPT_TOKENS, LocalHandoff } from './local-handoff.js';
import { Waiter, WaiterQueue } from './waiters.js';

/** Where a local lock is found by its key and by its owner. */
export interface LocalLockRegistry {
  /** Called before a local lock's new owner is set. */
  register(lock: LocalLock, owner: string): void;
  /** Called when a local lock has nothing to remember any more. */
  forget(lock: LocalLock): void;
  /** Returns whether the key may be kept after a release, because the store reports who wants it. */
  canKeep(key: string): boolean;
}

/** What a local lock does. Each state carries only its own data. */
type LocalLockState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'acquiring' }
  | { readonly kind: 'holding'; readonly grant: Grant; readonly localHandoff: LocalHandoff }
  /** The hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly localHandoff: LocalHandoff; readonly until: number; readonly timer: Timer }
  | KeepingState;

/** The last hold has ended, nobody waits, and the store still has the lock for the next caller. */
interface KeepingState {
  readonly kind: 'keeping';
  /** The last grant. Its lease is the lock's. */
  readonly grant: Grant;
  readonly localHandoff: LocalHandoff;
  /** How many jumps of the clock there were. A lease may have ended in one. */
  readonly clockJumps: number;
  /** Fires at the end of the keeping. */
  readonly timer: Timer;
}

const IDLE: LocalLockState = { kind: 'idle' };
const ACQUIRING: LocalLockState = { kind: 'acquiring' };

/**
 * The local lock in front of one key of one module instance. Callers that want an exclusive lock wait in its queue. The
 * store sees one acquire loop, however many callers wait. Each caller of a shared mode has a local lock of its own.
 */
export class LocalLock implements AcquireLoopListener, GrantEnder {
  /** The model checker reads it. @internal */
  readonly loop: AcquireLoop;
  /** The owner of the last attempt, by which handoffs in shared modes find this lock. Not set in exclusive mode. */
  owner = '';
  private state: LocalLockState = IDLE;
  private readonly queue = new WaiterQueue();
  private lastReply: LastReply = NO_REPLY;
  /** Whether the loop yields before its first request. */
  private isYielding = false;
  /** Whether the present attempt was granted at its first request, and no other instance has wanted the lock since. */
  private isUnwanted = false;
  /** True if every waiter with `waitMs > 0` has a timer. */
  private timed = false;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly deps: AcquireDeps,
    private readonly registry: LocalLockRegistry,
  ) {
    this.loop = new AcquireLoop(key, mode, deps, this);
  }

  /** Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. */
  acquire(resource: string, options: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    const waiter = new Waiter(resource, options, now, nested, this.deps.clock);
    try {
      waiter.listen((reason) => this.refuse(waiter, reason));
      this.enter(waiter);
    } catch (error) {
      // A waiter that stays behind would be granted the lock for nobody.
      waiter.refuse(error);
      this.refuse(waiter, error);
      this.forgetIfIdle();
    }
    return waiter.granted;
  }

  /**
   * Ends a grant, released or lost, and serves the next waiter. Returns true if the lock was held until now.
   *
   * @param closedUntil until when a lost lock stays closed. 0 frees it now.
   */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    if (this.state.kind !== 'holding' || this.state.grant !== grant) return Promise.resolve(false);
    const { localHandoff } = this.state;
    const now = this.deps.clock.now();
    const restMs = grant.state === 'lost' ? 0 : grant.minHoldUntil - now;
    localHandoff.onEnded(grant);
    if (restMs <= 0 && grant.state !== 'lost') {
      const isPassed = this.passOn(grant, localHandoff, now) || this.keep(grant, localHandoff, now);
      if (isPassed) return Promise.resolve(true);
    }
    this.reportUse(localHandoff, now);
    const released = this.release(grant, restMs > 0 ? grant.minHoldUntil : closedUntil);
    if (restMs > 0) this.rest(grant, localHandoff, restMs);
    else this.serveNext();
    return released;
  }

  /** Returns the grant of a lock that was acquired together with others. No other caller waits here. */
  adopt(resource: string, options: WaitOptions, given: StoreGrant, now: number): Grant {
    return this.hold(resource, options, new LocalHandoff(given, now), given, now);
  }

  /** Takes a handoff of the store. Returns false if it is of no use here: `LocalLocks` then releases it. */
  onHandoff(handoff: Handoff): boolean {
    // A duplicate, or one whose lock a reply has granted already.
    if (this.holds(handoff.owner)) return true;
    // Others may stand in the queue behind it.
    this.isUnwanted = false;
    return this.loop.onHandoff(handoff);
  }

  /** Whether the lock is kept for the next caller. */
  get isKept(): boolean {
    return this.state.kind === 'keeping';
  }

  /** Is called if another instance wants the lock, or may do so without a report. A lock that is kept is released. */
  onWanted(): void {
    this.isUnwanted = false;
    if ('localHandoff' in this.state) this.state.localHandoff.onWanted();
    this.endKeeping();
  }

  onGone(grant: Grant): void {
    if (this.state.kind === 'keeping' && this.state.grant === grant) this.endKeeping();
  }

  /** Releases a lock that is kept. Does nothing otherwise. */
  endKeeping(): void {
    if (this.state.kind !== 'keeping') return;
    const { grant, localHandoff, timer } = this.state;
    timer.cancel();
    this.reportUse(localHandoff, this.deps.clock.now());
    this.release(grant, 0).catch(() => undefined);
    this.serveNext();
  }

  /** Repeats the request of those that wait now. */
  retryNow(): void {
    // A report may have been missed.
    this.onWanted();
    this.loop.retryNow();
  }

  /** Is called if another holder may have released the key. */
  onReleasedByOthers(): void {
    this.loop.onReleasedByOthers();
  }

  onDisconnected(): void {
    this.onWanted();
    this.loop.onDisconnected();
  }

  /** Rejects all waiters that do not run in a hold of this engine. */
  refuseOutsiders(): void {
    this.endKeeping();
    for (const waiter of this.queue) if (!waiter.nested) this.refuse(waiter, closed(waiter.resource));
  }

  /** Rejects all waiters and cancels all timers. */
  close(): void {
    for (const waiter of this.queue) this.refuse(waiter, closed(waiter.resource));
    this.endKeeping();
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  holds(owner: string): boolean {
    return 'localHandoff' in this.state && this.state.localHandoff.owner === owner;
  }

  mayKeep(): boolean {
    const { head } = this.queue;
    return head !== undefined && keepMsOf(head.options) > 0 && this.registry.canKeep(this.key);
  }

  onAttempt(owner: string): void {
    if (this.isYielding) {
      // Whether others hold the lock is not known before the reply.
      this.isYielding = false;
      this.lastReply = NO_REPLY;
      this.timed = false;
    }
    this.isUnwanted = mayBeKept(owner);
    // Exclusive local locks are found by their key.
    if (this.mode === 'exclusive') return;
    this.registry.register(this, owner);
    this.owner = owner;
  }

  onGranted(given: StoreGrant, now: number): void {
    this.admitFirst(new LocalHandoff(given, now, this.isUnwanted), given, now);
    this.startTimers();
  }

  onReply(reply: LastReply, limit: number): void {
    this.lastReply = reply;
    this.isUnwanted = false;
    for (const waiter of this.queue.exhaustedAfter(limit)) this.refuse(waiter, this.errorFor(waiter));
    this.startTimers();
  }

  onIdle(): void {
    this.forgetIfIdle();
  }

  /** The parameters of a request that is sent now. Call it only if there is a waiter. */
  private get params(): AcquireParams {
    const { head, length, willWait } = this.queue;
    const { resource, options, waitUntil } = head as Waiter;
    // One token for the first waiter, and one for each waiter that the lock may be passed on to.
    const passes = keepMsOf(options) > 0 ? KEPT_TOKENS - 1 : Math.min(length - 1, this.deps.passing.maxLocalPasses);
    return { resource, leaseMs: leaseOf(options), tokens: passes + 1, willWait, waitUntil };
  }

  private enter(waiter: Waiter): void {
    this.queue.push(waiter);
    if (this.state.kind === 'keeping') return this.reuse(this.state);
    const isFirst = this.state.kind === 'idle';
    if (isFirst) this.startAcquiring();
    this.startTimer(waiter);
    if (!isFirst && this.state.kind === 'acquiring') this.loop.onWaiterAdded(this.params);
  }

  /** Keeps the lock for the next caller. Returns false if it has to be released. */
  private keep(grant: Grant, localHandoff: LocalHandoff, now: number): boolean {
    const keepMs = keepMsOf(grant.options);
    if (keepMs === 0 || this.queue.head !== undefined || !this.registry.canKeep(this.key)) return false;
    const keptMs = localHandoff.keepUntil(grant.lease, keepMs) - now;
    if (keptMs <= 0) return false;
    const { clock } = this.deps;
    const timer = clock.schedule(keptMs, () => this.endKeeping(), true);
    this.state = { kind: 'keeping', grant, localHandoff, clockJumps: clock.forwardJumps?.() ?? 0, timer };
    return true;
  }

  /** Gives the kept lock to the caller that has come, or acquires it anew. */
  private reuse({ grant, localHandoff, clockJumps, timer }: KeepingState): void {
    const { clock } = this.deps;
    const now = clock.now();
    const isCertain = (clock.forwardJumps?.() ?? 0) === clockJumps;
    if (!isCertain || !this.passOn(grant, localHandoff, now)) return this.endKeeping();
    timer.cancel();
  }

  private reportUse({ grants, startedAt }: LocalHandoff, now: number): void {
    this.loop.onReleased({ heldMs: now - startedAt, grants, isAwaited: this.queue.head !== undefined });
  }

  private startAcquiring(): void {
    this.state = ACQUIRING;
    this.loop.start(this.params);
    // While others come first, the lock is theirs.
    this.isYielding = this.loop.state.kind === 'yielding';
    if (this.isYielding) this.lastReply = heldUntil(undefined);
    this.startTimers();
  }

  private passOn(grant: Grant, localHandoff: LocalHandoff, now: number): boolean {
    if (this.queue.head === undefined || !localHandoff.tryPass(now, grant.lease, this.deps.passing)) return false;
    this.admitFirst(localHandoff, grant.lease, now);
    return true;
  }

  /** Gives the first waiter its grant. */
  private admitFirst(localHandoff: LocalHandoff, lease: Lease, now: number): void {
    const waiter = this.queue.head as Waiter;
    this.queue.remove(waiter);
    waiter.admit(this.hold(waiter.resource, waiter.options, localHandoff, lease, now));
  }

  private hold(resource: string, options: WaitOptions, localHandoff: LocalHandoff, lease: Lease, now: number): Grant {
    // The lease may have been requested for another caller, and be longer than this one wants.
    const cut = cutTo(lease, leaseOf(options), now);
    const { owner, token, mayBeRepeatedUntil } = localHandoff;
    const grant = new Grant(resource, this.key, owner, token, options, now, cut, this, mayBeRepeatedUntil);
    this.state = { kind: 'holding', grant, localHandoff };
    this.lastReply = heldUntil(undefined);
    this.deps.watch(grant);
    return grant;
  }

  private release({ resource, owner, ttlMs, lease }: Grant, keepUntil: number): Promise<boolean> {
    // The last renewal may have run without a reply: the store may keep a longer lease than is known here.
    const leaseMs = Math.max(ttlMs, lease.leaseMs);
    const { key, mode } = this;
    return this.deps.releaser.release({ resource, key, owner, mode, leaseMs, keepUntil });
  }

  private rest(grant: Grant, localHandoff: LocalHandoff, restMs: number): void {
    const onRested = (): void => {
      this.release(grant, 0).catch(() => undefined);
      this.serveNext();
    };
    const timer = this.deps.clock.schedule(restMs, onRested, true);
    this.state = { kind: 'resting', localHandoff, until: grant.minHoldUntil, timer };
  }

  private serveNext(): void {
    if (this.queue.head !== undefined) return this.startAcquiring();
    this.state = IDLE;
    this.forgetIfIdle();
  }

  private forgetIfIdle(): void {
    if (this.state.kind === 'idle' && this.loop.isIdle) this.registry.forget(this);
  }

  /** Starts the timers of all waiters that have none. Later waiters start theirs when they arrive. */
  private startTimers(): void {
    if (this.timed && this.queue.allWillWait) return;
    for (const waiter of this.queue) this.startTimer(waiter);
    this.timed = this.lastReply !== NO_REPLY;
  }

  private startTimer(waiter: Waiter): void {
    const hasNoReply = this.lastReply === NO_REPLY;
    // No wait ends before the first reply: until then the lock is neither held by others nor unavailable.
    if (hasNoReply && this.loop.replyDueMs === Infinity) return;
    // A caller without time left still waits for the reply, to learn which of the two it is.
    const isLast = waiter.options.waitMs === 0 || (hasNoReply && waiter.remainingWaitMs <= 0);
    const delayMs = isLast ? this.loop.replyDueMs : waiter.remainingWaitMs;
    waiter.startTimer(delayMs, () => {
      if (isLast || this.lastReply !== NO_REPLY) this.refuse(waiter, this.errorFor(waiter));
      else this.startTimer(waiter);
    });
  }

  private refuse(waiter: Waiter, reason: unknown): void {
    if (!this.queue.remove(waiter)) return;
    waiter.refuse(reason);
    if (this.state.kind !== 'acquiring') return;
    if (this.queue.head !== undefined) return this.loop.update(this.params);
    try {
      this.loop.stop();
    } finally {
      this.serveNext();
    }
  }

  private errorFor({ resource, enteredAt, options: { waitMs } }: Waiter): LockError {
    const { key, mode, state } = this;
    let { lastReply } = this;
    if (state.kind === 'holding') {
      const { owner, deadline, grantedAt } = state.grant;
      lastReply = heldUntil(deadline, ownHolder(owner, grantedAt));
    } else if (state.kind === 'resting') {
      const { owner, startedAt } = state.localHandoff;
      lastReply = heldUntil(state.until, ownHolder(owner, startedAt));
    }
    return acquireError(lastReply, { resource, key, mode, waitMs, enteredAt, now: this.deps.clock.now() });
  }
}

/** Returns this module instance as the holder of its own lock. */
function ownHolder(owner: string, since: number): CurrentHolder {
  return { instanceId: instanceOf(owner), since, isOwn: true };
}
