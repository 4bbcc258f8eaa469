import { instanceOf, type LockMode } from '../store/lock-store.js';
import { heldUntil, type LastReply } from './acquire-errors.js';
import type { AcquireParams } from './acquire-loop.js';
import type { AcquireDeps, Target } from './acquire-options.js';
import { Share, type ShareUser } from './share.js';
import { WaitingCallers } from './waiting-callers.js';
import type { Waiter, WaiterCount, WaiterQueue } from './waiters.js';

/** Where shared local locks and their shares are found. */
export interface SharedLocalLockRegistry {
  /** Called before a share's new owner is set. */
  register(share: Share, owner: string): void;
  /** Called when a share has been released or given up. */
  unregister(share: Share): void;
  /** Called when a local lock has nothing to remember any more. */
  forgetShared(lock: SharedLocalLock): void;
}

/**
 * The local lock in front of one key of one module instance, for callers of one shared mode that want the same lease.
 * They wait in its queue, and the store sees few of them.
 *
 * - Readers: one share is requested for all that wait. All of them have the lock when it is granted. Later readers join
 *   within the limits of `fairness`. The next ones wait for another share, behind other instances that wait by then.
 * - Permits: each share has one caller, and is passed on to the next one within the same limits. As many are requested
 *   as there are permits, and one at a time once a request was refused.
 */
export class SharedLocalLock extends WaitingCallers implements ShareUser {
  /** In the order of their requests, and so of their places in the store's queue. */
  private readonly requested: Share[] = [];
  private readonly taken = new Set<Share>();
  /** Given up, and the reply to the last request is outstanding. */
  private readonly stopped: Share[] = [];
  /** The share that further readers may join. */
  private joinable: Share | undefined;
  /** Whether a request was refused or failed since this instance began to use the lock. */
  private isFull = false;
  /** Whether timers are started because a waiter has left, which may make others leave. */
  private isLeaving = false;
  private readonly params: AcquireParams;

  constructor(
    private readonly target: Target,
    mode: LockMode,
    private readonly leaseMs: number,
    deps: AcquireDeps,
    private readonly registry: SharedLocalLockRegistry,
    total?: WaiterCount,
  ) {
    super(target.key, mode, deps, total);
    this.params = new ShareParams(target.resource, leaseMs, this.queue);
  }

  /** Returns whether callers with this resource, mode and lease wait here. */
  isFor(resource: string, mode: LockMode, leaseMs: number): boolean {
    return this.mode === mode && this.leaseMs === leaseMs && this.target.resource === resource;
  }

  /** Yields the shares that are requested or taken, or whose last request may still get a reply. */
  *shares(): Generator<Share> {
    yield* [...this.requested, ...this.taken, ...this.stopped];
  }

  /** Called if the shares may have been released by force. Nobody waits for the end of their rest. */
  onForceReleased(): void {
    // A share that is free leaves the set.
    const taken = [...this.taken];
    for (const share of taken) share.onForceReleased();
  }

  override close(): void {
    super.close();
    for (const share of this.taken) share.close();
  }

  onAttempt(share: Share, owner: string): void {
    this.registry.register(share, owner);
  }

  onGranted(share: Share, now: number): void {
    remove(this.requested, share);
    this.taken.add(share);
    this.lastReply = heldUntil(undefined);
    this.admitFirst(share, now);
    if (this.mode === 'shared') {
      this.joinable = share;
      while (this.queue.head !== undefined && share.isHeld) this.admitFirst(share, now);
    }
    // Others may have released more permits.
    this.requestShares();
    this.startTimers();
    if (this.isBehindOwn) this.deps.onWaitBehindOwn?.();
  }

  get isBehindOwn(): boolean {
    return this.queue.head !== undefined && this.requested.length === 0 && this.taken.size > 0;
  }

  onReply(reply: LastReply, limit: number): void {
    this.isFull = true;
    this.refused(reply, limit);
  }

  onUnused(share: Share, now: number): boolean {
    // Each of the requested shares is for a waiter.
    const isAwaited = this.queue.length > this.requested.length;
    if (!isAwaited || this.mode === 'shared') return false;
    if (!share.tryPass(now)) return false;
    this.admitFirst(share, now);
    return true;
  }

  onIdle(share: Share): void {
    if (this.joinable === share) this.joinable = undefined;
    remove(this.requested, share);
    remove(this.stopped, share);
    this.taken.delete(share);
    this.registry.unregister(share);
    if (!share.isOver) this.stopped.push(share);
    this.requestShares();
    this.forgetIfIdle();
  }

  protected enter(waiter: Waiter, now: number): void {
    if (this.queue.head === undefined && this.joinable?.tryPass(now)) return this.joinable.admit(waiter, now);
    const { willWait } = this.queue;
    this.queue.push(waiter);
    const isFirst = this.requested.length === 0;
    this.requestShares();
    // A request of others is on its way.
    if (!isFirst) this.refuseIfUnavailable();
    this.startTimer(waiter);
    // Those that are not in the store's queue join it.
    if (!isFirst && !willWait && this.queue.has(waiter) && waiter.options.waitMs > 0)
      for (const { loop } of this.requested) loop.onWaiterAdded(this.params);
  }

  protected onLeft(): void {
    // Those that were requested last have the last places in the store's queue.
    const { length } = this.requested;
    while (this.requested.length > this.queue.length) this.requested[this.requested.length - 1].stop();
    if (this.requested.length === length || this.isLeaving) return;
    // Those that do not wait may have waited for the reply to a request that was given up.
    this.isLeaving = true;
    this.startTimers();
    this.isLeaving = false;
  }

  protected forgetIfIdle(): void {
    const count = this.requested.length + this.taken.size + this.stopped.length + this.queue.length;
    if (count === 0) this.registry.forgetShared(this);
  }

  protected get replyDueMs(): number {
    let dueMs = 0;
    for (let i = this.requested.length - 1; i >= 0 && dueMs !== Infinity; i -= 1)
      dueMs = Math.max(dueMs, this.requested[i].loop.replyDueMs);
    return dueMs;
  }

  /** The store's last reply, or the holders of this instance if they have all permits. */
  protected get whyNot(): LastReply {
    const [first] = this.taken;
    if (first === undefined || this.requested.length > 0) return this.lastReply;
    const { owner, since, deadline } = first;
    return heldUntil(deadline, { instanceId: instanceOf(owner), since, count: this.taken.size, isOwn: true });
  }

  /**
   * How many shares to request for those that wait: one at a time if it is for all, if others have the rest, or if the
   * store has no queue, because each caller counts the replies then.
   */
  private get wanted(): number {
    const isOne = this.mode === 'shared' || this.isFull || !this.deps.store.capabilities.queue;
    const rest = this.mode === 'shared' ? 1 : Number(this.mode) - this.taken.size;
    return Math.min(this.queue.length, rest, isOne ? 1 : Infinity);
  }

  private requestShares(): void {
    if (this.wanted <= this.requested.length) return;
    if (this.deps.health.isAnySilent && !this.mayRequest()) return this.forgetIfIdle();
    if (this.requested.length === 0) this.forgetLastReply();
    while (this.requested.length < this.wanted) {
      // One whose last request has no reply yet waits for that.
      const share = this.stopped.pop() ?? new Share(this.key, this.mode, this.deps, this);
      this.requested.push(share);
      share.start(this.params);
    }
  }

  private admitFirst(share: Share, now: number): void {
    const waiter = this.queue.head as Waiter;
    this.queue.remove(waiter);
    share.admit(waiter, now);
  }
}

/** The parameters of the requests for those that wait when a request is sent. */
class ShareParams implements AcquireParams {
  readonly tokens = 1;

  constructor(
    readonly resource: string,
    readonly leaseMs: number,
    private readonly queue: WaiterQueue,
  ) {}

  get willWait(): boolean {
    return this.queue.willWait;
  }

  get waitUntil(): number {
    return this.queue.head?.waitUntil ?? Infinity;
  }
}

function remove(list: Share[], share: Share): void {
  const place = list.lastIndexOf(share);
  if (place !== -1) list.splice(place, 1);
}
