import { cutTo, Grant, type GrantEnder, type Lease, type StoreGrant } from '../lease/grant.js';
import { type Handoff, instanceOf, type LockMode } from '../store/lock-store.js';
import type { Timer } from '../time/clock.js';
import { type CurrentHolder, heldUntil, type LastReply } from './acquire-errors.js';
import { AcquireLoop, type AcquireLoopListener, type AcquireParams } from './acquire-loop.js';
import { type AcquireDeps, leaseOf, type WaitOptions } from './acquire-options.js';
import { LocalHandoff } from './local-handoff.js';
import { WaitingCallers } from './waiting-callers.js';
import type { Waiter } from './waiters.js';

/** What a caller requests. */
type Requested = Pick<Waiter, 'resource' | 'options' | 'leaseMs'>;

/** Where local locks are found. */
export interface LocalLockRegistry {
  /** Called when a local lock has nothing to remember any more. */
  forget(lock: LocalLock): void;
}

/** What a local lock does. Each state carries only its own data. */
type LocalLockState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'acquiring' }
  | { readonly kind: 'holding'; readonly grant: Grant; readonly localHandoff: LocalHandoff }
  /** The hold has ended before its `minHoldMs`. */
  | { readonly kind: 'resting'; readonly localHandoff: LocalHandoff; readonly until: number; readonly timer: Timer };

const IDLE: LocalLockState = { kind: 'idle' };
const ACQUIRING: LocalLockState = { kind: 'acquiring' };

const HELD = heldUntil(undefined);

/**
 * The local lock in front of one key of one module instance. Callers that want an exclusive lock wait in its queue. The
 * store sees one acquire loop, however many callers wait. A lock that was acquired together with others has one of its
 * own, in any mode.
 */
export class LocalLock extends WaitingCallers implements AcquireLoopListener, GrantEnder {
  /** The model checker reads it. @internal */
  readonly loop: AcquireLoop;
  private state: LocalLockState = IDLE;
  /** Whether the loop yields before its first request. */
  private isYielding = false;

  constructor(
    key: string,
    mode: LockMode,
    deps: AcquireDeps,
    private readonly registry: LocalLockRegistry,
  ) {
    super(key, mode, deps);
    this.loop = new AcquireLoop(key, mode, deps, this);
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
    if (restMs <= 0 && grant.state !== 'lost' && this.passOn(grant, localHandoff, now)) return Promise.resolve(true);
    this.reportUse(localHandoff, now);
    const released = this.release(grant, restMs > 0 ? grant.minHoldUntil : closedUntil, now);
    if (restMs > 0) this.rest(grant, localHandoff, restMs);
    else this.serveNext();
    return released;
  }

  /** Returns the grant of a lock that was acquired together with others. No other caller waits here. */
  adopt(resource: string, options: WaitOptions, given: StoreGrant, now: number): Grant {
    const requested = { resource, options, leaseMs: leaseOf(options) };
    const grant = this.hold(requested, new LocalHandoff(given, now), given, now);
    grant.ready = this.deps.watch(grant);
    return grant;
  }

  /** Takes a handoff of the store. Returns false if it is of no use here: `LocalLocks` then releases it. */
  onHandoff(handoff: Handoff): boolean {
    // A duplicate, or one whose lock a reply has granted already.
    if (this.holds(handoff.owner)) return true;
    return this.loop.onHandoff(handoff);
  }

  /** Called if the lock may have been released by force. Nobody waits for the end of its rest. */
  onForceReleased(): void {
    if (this.state.kind !== 'resting') return;
    // Its timer still sends the release: the message may be forged, and the release by force may have failed.
    this.forgetLastReply();
    this.serveNext();
  }

  override close(): void {
    super.close();
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  holds(owner: string): boolean {
    return 'localHandoff' in this.state && this.state.localHandoff.owner === owner;
  }

  onAttempt(): void {
    if (!this.isYielding) return;
    // Whether others hold the lock is not known before the reply.
    this.isYielding = false;
    this.forgetLastReply();
  }

  onGranted(given: StoreGrant, now: number): void {
    this.admitFirst(new LocalHandoff(given, now), given, now);
    this.startTimers();
  }

  onReply(reply: LastReply, limit: number): void {
    this.refused(reply, limit);
  }

  onIdle(): void {
    this.forgetIfIdle();
  }

  /** The parameters of a request that is sent now. Call it only if there is a waiter. */
  private get params(): AcquireParams {
    const { head, length, willWait } = this.queue;
    const { resource, leaseMs, waitUntil } = head as Waiter;
    // One token for the first waiter, and one for each waiter that the lock may be passed on to.
    const passes = Math.min(length - 1, this.deps.passing.maxLocalPasses);
    return { resource, leaseMs, tokens: passes + 1, willWait, waitUntil };
  }

  protected enter(waiter: Waiter): void {
    this.queue.push(waiter);
    const isFirst = this.state.kind === 'idle';
    if (isFirst) this.startAcquiring();
    else this.refuseIfUnavailable();
    this.startTimer(waiter);
    if (!isFirst && this.queue.has(waiter) && this.state.kind === 'acquiring') this.loop.onWaiterAdded(this.params);
  }

  private reportUse({ grants, startedAt }: LocalHandoff, now: number): void {
    if (!this.loop.hasTurns) return;
    this.loop.onReleased({ heldMs: now - startedAt, grants, isAwaited: this.queue.head !== undefined });
  }

  private startAcquiring(): void {
    if (this.deps.health.isAnySilent && !this.mayRequest()) {
      this.state = IDLE;
      return this.forgetIfIdle();
    }
    this.state = ACQUIRING;
    this.loop.start(this.params);
    // While others come first, the lock is theirs.
    this.isYielding = this.loop.state.kind === 'yielding';
    if (this.isYielding) this.lastReply = HELD;
    this.startTimers();
  }

  private passOn(grant: Grant, localHandoff: LocalHandoff, now: number): boolean {
    if (this.queue.head === undefined) return false;
    const { lease } = grant;
    if (!localHandoff.tryPass(now, lease, this.deps.passing)) return false;
    this.admitFirst(localHandoff, lease, now);
    return true;
  }

  /** Gives the first waiter its grant. */
  private admitFirst(localHandoff: LocalHandoff, lease: Lease, now: number): void {
    const waiter = this.queue.head as Waiter;
    this.queue.remove(waiter);
    const grant = this.hold(waiter, localHandoff, lease, now);
    waiter.admit(grant, this.deps.watch(grant));
    if (this.isBehindOwn) this.deps.onWaitBehindOwn?.();
  }

  get isBehindOwn(): boolean {
    return this.queue.head !== undefined && (this.state.kind === 'holding' || this.state.kind === 'resting');
  }

  private hold(
    { resource, options, leaseMs }: Requested,
    localHandoff: LocalHandoff,
    lease: Lease,
    now: number,
  ): Grant {
    // The lease may have been requested for another caller, and be longer than this one wants.
    const cut = cutTo(lease, leaseMs, now);
    const { owner, token, mayBeRepeatedUntil } = localHandoff;
    const grant = new Grant(resource, this.key, owner, token, options, now, cut, this, mayBeRepeatedUntil);
    this.state = { kind: 'holding', grant, localHandoff };
    this.lastReply = HELD;
    return grant;
  }

  private release(grant: Grant, closedUntil: number, now?: number): Promise<boolean> {
    // The last renewal may have run without a reply: the store may keep a longer lease than is known here.
    const leaseMs = Math.max(grant.ttlMs, grant.leaseMs);
    const { resource, owner } = grant;
    const { key, mode } = this;
    return this.deps.releaser.release({ resource, key, owner, mode, leaseMs, closedUntil }, now);
  }

  private rest(grant: Grant, localHandoff: LocalHandoff, restMs: number): void {
    const onRested = (): void => {
      this.release(grant, 0).catch(() => undefined);
      if (this.state === resting) this.serveNext();
    };
    const timer = this.deps.clock.schedule(restMs, onRested, true);
    const resting: LocalLockState = { kind: 'resting', localHandoff, until: grant.minHoldUntil, timer };
    this.state = resting;
  }

  private serveNext(): void {
    if (this.queue.head !== undefined) return this.startAcquiring();
    this.state = IDLE;
    this.forgetIfIdle();
  }

  protected forgetIfIdle(): void {
    if (this.state.kind === 'idle' && this.loop.isIdle) this.registry.forget(this);
  }

  protected onLeft(): void {
    if (this.state.kind !== 'acquiring') return;
    if (this.queue.head !== undefined) return this.loop.update(this.params);
    try {
      this.loop.stop();
    } finally {
      this.serveNext();
    }
  }

  protected get replyDueMs(): number {
    return this.loop.replyDueMs;
  }

  protected get whyNot(): LastReply {
    const { state } = this;
    if (state.kind === 'holding') {
      const { owner, deadline, grantedAt } = state.grant;
      return heldUntil(deadline, ownHolder(owner, grantedAt));
    }
    if (state.kind !== 'resting') return this.lastReply;
    const { owner, startedAt } = state.localHandoff;
    return heldUntil(state.until, ownHolder(owner, startedAt));
  }
}

/** Returns this module instance as the holder of its own lock. */
function ownHolder(owner: string, since: number): CurrentHolder {
  return { instanceId: instanceOf(owner), since, isOwn: true };
}
