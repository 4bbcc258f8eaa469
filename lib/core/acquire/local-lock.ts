import { AcquireLoop } from './acquire-loop.js';
import type { AcquireLoopDeps, AcquireLoopOwner } from './acquire-loop-deps.js';
import type { LockError } from '../errors.js';
import { ACQUIRING, EMPTY, type LocalLockState } from './local-lock-state.js';
import { cutTo, Grant, type GrantEnder, type Lease, type StoreGrant } from '../lease/grant.js';
import type { Handoff, LockMode } from '../store/lock-store.js';
import { closed, heldUntil, type LastReply, acquireError, NO_REPLY } from './acquire-errors.js';
import type { Releaser } from '../lease/releaser.js';
import { type PassingLimits, LocalHandoff } from './local-handoff.js';
import { type WaitOptions, leaseOf, Waiter, WaiterQueue } from './waiters.js';

/** What a gate needs of its engine. */
export interface LocalLockDeps extends AcquireLoopDeps {
  readonly releaser: Pick<Releaser, 'release' | 'releaseBehind'>;
  readonly passing: PassingLimits;
  granted(grant: Grant): void;
  /** The gate has nothing left to remember. */
  forget(gate: LocalLock): void;
}

/**
 * Stands before one key of one module instance. Local callers who want it alone wait in one, first in first out; the store
 * sees one contender of theirs per instance, however many callers wait. Each who shares it stands before a gate of its own.
 */
export class LocalLock implements AcquireLoopOwner, GrantEnder {
  private state: LocalLockState = EMPTY;
  private readonly queue = new WaiterQueue();
  private readonly loop: AcquireLoop;
  private lastReply: LastReply = NO_REPLY;
  /** Whoever waits has a timer, but for those who do not wait for others. */
  private timed = false;

  constructor(
    readonly key: string,
    readonly mode: LockMode,
    private readonly keeper: LocalLockDeps,
  ) {
    this.loop = new AcquireLoop(this, keeper);
  }

  /** Several resources may share a key: the one that is asked for now. */
  get resource(): string {
    return this.queue.head?.resource ?? this.key;
  }

  /** Waits for the lock. Rejects with `LockTimeoutError`, `LockUnavailableError`, or the signal's reason. */
  acquire(resource: string, terms: WaitOptions, now: number, nested: boolean): Promise<Grant> {
    const waiter = new Waiter(resource, terms, now, nested, this.keeper.clock);
    this.queue.push(waiter);
    waiter.onAbort((reason) => this.refuse(waiter, reason));
    if (this.state.kind === 'empty') this.startAcquiring();
    this.startTimer(waiter);
    this.loop.onWaiterAdded();
    return waiter.granted;
  }

  /**
   * Ends a grant, in good order or lost, and turns to the next waiter: by passing the lock on to it, if that may be. Answers
   * the store's word; what is passed on was held to the end. A lost lock stays closed until `closedUntil`; 0: it is free.
   */
  end(grant: Grant, closedUntil = 0): Promise<boolean> {
    if (this.state.kind !== 'holding' || this.state.grant !== grant) return Promise.resolve(false);
    const { tenure } = this.state;
    const now = this.keeper.clock.now();
    const restMs = grant.state === 'lost' ? 0 : grant.minHoldUntil - now;
    if (restMs <= 0 && grant.state !== 'lost' && this.passOn(grant, tenure, now)) return Promise.resolve(true);
    const released = this.giveBack(grant, restMs > 0 ? grant.minHoldUntil : closedUntil);
    if (restMs > 0) this.rest(grant, tenure, restMs);
    else this.serveNext();
    return released;
  }

  /** Takes in what was asked for elsewhere, for a caller who stands here alone. */
  adopt(resource: string, terms: WaitOptions, given: StoreGrant, now: number): Grant {
    return this.hold(resource, terms, new LocalHandoff(given, now), given, now);
  }

  onHandoff(handoff: Handoff): void {
    // Told twice, or after the answer to an ask: it is held already.
    if (this.holds(handoff.owner)) return;
    this.loop.onHandoff(handoff);
  }

  /** Something may have been missed: whoever waits does not wait for the next time to ask. */
  retryNow(): void {
    this.loop.retryNow();
  }

  onDisconnected(): void {
    this.loop.onDisconnected();
  }

  /** Refuses everybody who does not wait inside a hold of this instance. */
  refuseOutsiders(): void {
    for (const waiter of this.queue) if (!waiter.nested) this.refuse(waiter, closed(waiter.resource));
  }

  /** Stops for good: nobody waits any more, no timer is left. */
  close(): void {
    for (const waiter of this.queue) this.refuse(waiter, closed(waiter.resource));
    if (this.state.kind === 'resting') this.state.timer.cancel();
  }

  holds(owner: string): boolean {
    return 'tenure' in this.state && this.state.tenure.owner === owner;
  }

  get willWait(): boolean {
    return this.queue.willWait;
  }

  /** One for the first in line, and one for each behind it that the lock may be passed on to. */
  get tokens(): number {
    return Math.min(this.queue.length - 1, this.keeper.passing.maxLocalPasses) + 1;
  }

  get leaseMs(): number {
    return leaseOf((this.queue.head as Waiter).options);
  }

  granted(given: StoreGrant, now: number): void {
    this.admit(new LocalHandoff(given, now), given, now);
    this.startTimers();
  }

  onReply(word: LastReply, limit: number): void {
    this.lastReply = word;
    for (const waiter of this.queue.exhaustedAfter(limit)) this.refuse(waiter, this.refusalOf(waiter));
    this.startTimers();
  }

  settled(): void {
    if (this.state.kind === 'empty') this.keeper.forget(this);
  }

  private startAcquiring(): void {
    this.state = ACQUIRING;
    this.loop.start();
    this.startTimers();
  }

  private passOn(grant: Grant, tenure: LocalHandoff, now: number): boolean {
    if (this.queue.head === undefined || !tenure.tryPass(now, grant.lease, this.keeper.passing)) return false;
    this.admit(tenure, grant.lease, now);
    return true;
  }

  /** Lets the first in line in. */
  private admit(tenure: LocalHandoff, lease: Lease, now: number): void {
    const waiter = this.queue.head as Waiter;
    this.queue.remove(waiter);
    waiter.admit(this.hold(waiter.resource, waiter.options, tenure, lease, now));
  }

  private hold(resource: string, terms: WaitOptions, tenure: LocalHandoff, lease: Lease, now: number): Grant {
    // Asked for by another one, it may be longer than this one wants to believe in.
    const cut = cutTo(lease, leaseOf(terms), now);
    const grant = new Grant(resource, this.key, tenure.owner, tenure.token, terms, now, cut, this);
    this.state = { kind: 'holding', grant, tenure };
    this.lastReply = heldUntil(undefined);
    this.keeper.granted(grant);
    return grant;
  }

  private giveBack({ resource, owner, ttlMs, lease }: Grant, keepUntil: number): Promise<boolean> {
    // The last renewal may have run although its answer never came: the store may keep it longer than was believed here.
    const leaseMs = Math.max(ttlMs, lease.leaseMs);
    const { key, mode, keeper } = this;
    return keeper.releaser.release({ resource, key, owner, mode, leaseMs, keepUntil });
  }

  private rest(grant: Grant, tenure: LocalHandoff, restMs: number): void {
    const rested = (): void => {
      this.giveBack(grant, 0).catch(() => undefined);
      this.serveNext();
    };
    const timer = this.keeper.clock.schedule(restMs, rested, true);
    this.state = { kind: 'resting', tenure, until: grant.minHoldUntil, timer };
  }

  private serveNext(): void {
    if (this.queue.head !== undefined) return this.startAcquiring();
    this.state = EMPTY;
    if (this.loop.settled) this.keeper.forget(this);
  }

  /** Of those who came before there was an answer; later ones start theirs when they come. */
  private startTimers(): void {
    if (this.timed && this.queue.allWillWait) return;
    for (const waiter of this.queue) this.startTimer(waiter);
    this.timed = this.lastReply !== NO_REPLY;
  }

  private startTimer(waiter: Waiter): void {
    const unheard = this.lastReply === NO_REPLY;
    // Nobody's time is up before the first answer is there: until then the lock is neither busy nor unreachable.
    if (unheard && this.loop.replyDueMs === Infinity) return;
    // Even who does not wait for others (any longer) waits for the store's answer, to learn which of both it is.
    const last = waiter.options.waitMs === 0 || (unheard && waiter.remainingWaitMs <= 0);
    const delayMs = last ? this.loop.replyDueMs : waiter.remainingWaitMs;
    const over = (): void => this.refuse(waiter, this.refusalOf(waiter));
    waiter.startTimer(delayMs, () => (last || this.lastReply !== NO_REPLY ? over() : this.startTimer(waiter)));
  }

  private refuse(waiter: Waiter, reason: unknown): void {
    if (!this.queue.remove(waiter)) return;
    waiter.refuse(reason);
    if (this.queue.head !== undefined || this.state.kind !== 'acquiring') return;
    this.loop.stop();
    this.serveNext();
  }

  private refusalOf({ resource, enteredAt, options: { waitMs } }: Waiter): LockError {
    const { key, mode, state } = this;
    let { lastReply } = this;
    if (state.kind === 'holding') lastReply = heldUntil(state.grant.deadline);
    if (state.kind === 'resting') lastReply = heldUntil(state.until);
    return acquireError(lastReply, { resource, key, mode, waitMs, enteredAt, now: this.keeper.clock.now() });
  }
}
