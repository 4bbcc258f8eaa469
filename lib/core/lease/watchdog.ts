import type { Clock, Timer } from '../time/clock.js';
import type { Grant } from './grant.js';
import { runOutside } from '../async-context.js';
import type { ExtendReply, KeyFilter, LockStore } from '../store/lock-store.js';

/** What the watchdog finds out. */
export interface WatchdogEvents {
  extended(grant: Grant): void;
  lost(grant: Grant, why: string): void;
}

const TAKEN = 'its key is gone or belongs to somebody else';

/** How soon a lease that is short from the start is made up for. */
const CONFIRM_AFTER_MS = 20;

/** Turns are gathered on a grid this many times finer than the lease, so that many locks share one request. */
const BUCKETS_PER_LEASE = 30;

/** A renewal without an answer is tried again after a tenth of the lease, faster near the deadline, but never in a rush. */
const RETRY_AFTER = 1 / 10;
const RETRY_AFTER_AT_LEAST = 1 / 50;

/**
 * Watches over every grant of one module instance with one timer: renews them at a third of their lease, in batches, and
 * declares them lost when the store says so or when the local deadline has come. An answer that fails to come is neither:
 * it is unknown, and only time makes it a loss.
 */
export class Watchdog {
  /** Grants by the moment of their next turn. */
  private readonly buckets = new Map<number, Set<Grant>>();
  private watched = 0;
  private readonly inFlight = new Map<Grant, symbol>();
  private timer: Timer | undefined;
  private armedFor = Infinity;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly events: WatchdogEvents,
  ) {}

  /** How many grants it watches over. */
  get size(): number {
    return this.watched;
  }

  /** All grants that it watches over. */
  grants(): Iterable<Grant> {
    return [...this.buckets.values()].flatMap((sharers) => [...sharers]);
  }

  watch(grant: Grant): void {
    if (grant.renewAt !== Infinity && grant.isShort) this.moveTo(grant, this.confirmationOf(grant));
    else this.schedule(grant, grant.renewAt);
  }

  forget(grant: Grant): void {
    const { dueAt } = grant;
    if (dueAt === undefined) return;
    grant.dueAt = undefined;
    this.watched -= 1;
    this.inFlight.delete(grant);
    this.leaveBucket(grant, dueAt);
  }

  /** Renews one grant now, with what `extend()` asks for. */
  async renew(grant: Grant): Promise<ExtendReply> {
    const [reply] = await this.send([grant]);
    return reply ?? 'unknown';
  }

  /** What is on its way may never be answered: those grants are tried again. */
  onDisconnected(concerns: KeyFilter = () => true): void {
    const unanswered = [...this.inFlight.keys()].filter(({ key }) => concerns(key));
    for (const grant of unanswered) {
      this.inFlight.delete(grant);
      this.retry(grant);
    }
  }

  close(): void {
    this.timer?.cancel();
    this.buckets.clear();
    this.watched = 0;
    this.inFlight.clear();
  }

  /** The next turn is the renewal, or the deadline if that is sooner. Early on the grid: a third of the lease is plenty. */
  private schedule(grant: Grant, renewAt: number): void {
    const step = grant.ttlMs / BUCKETS_PER_LEASE;
    this.moveTo(grant, Math.floor(renewAt / step) * step);
  }

  /** A lease that is short from the start is made up for soon, but not so soon that the shortest holds cost a request. */
  private confirmationOf(grant: Grant): number {
    const step = Math.min(CONFIRM_AFTER_MS, grant.lease.leaseMs / BUCKETS_PER_LEASE);
    return Math.ceil(this.clock.now() / step + 1) * step;
  }

  /** Late on the grid, so that it is never at once. */
  private retry(grant: Grant): void {
    const now = this.clock.now();
    const { ttlMs } = grant;
    const delayMs = Math.max(ttlMs * RETRY_AFTER_AT_LEAST, Math.min(ttlMs * RETRY_AFTER, (grant.deadline - now) / 2));
    const step = ttlMs * RETRY_AFTER_AT_LEAST;
    this.moveTo(grant, Math.ceil((now + delayMs) / step) * step);
  }

  private moveTo(grant: Grant, wanted: number): void {
    const turn = Math.min(wanted, Math.ceil(grant.deadline));
    const previous = grant.dueAt;
    if (previous === turn) return;
    if (previous === undefined) this.watched += 1;
    else this.leaveBucket(grant, previous);
    grant.dueAt = turn;
    const sharers = this.buckets.get(turn);
    if (sharers === undefined) this.buckets.set(turn, new Set([grant]));
    else sharers.add(grant);
    if (turn < this.armedFor) this.arm(turn);
  }

  private leaveBucket(grant: Grant, turn: number): void {
    const sharers = this.buckets.get(turn);
    if (sharers?.delete(grant) && sharers.size === 0) this.buckets.delete(turn);
  }

  /** The timer is left alone when its turn empties: firing for nothing is cheaper than a timer for every lock. */
  private arm(turn: number): void {
    this.timer?.cancel();
    this.armedFor = turn;
    const delayMs = Math.max(0, turn - this.clock.now());
    this.timer = runOutside(() => this.clock.schedule(delayMs, () => this.tick(), true));
  }

  private tick(): void {
    this.armedFor = Infinity;
    const now = this.clock.now();
    const renewable: Grant[] = [];
    for (const grant of this.takeDue(now)) {
      // Listeners of a loss may release any other grant: one that is not watched any more is left alone.
      if (grant.dueAt === undefined || this.isOver(grant, now)) continue;
      if (grant.renewAt !== Infinity && !this.inFlight.has(grant)) renewable.push(grant);
      // What is not renewed (any more), or is on its way already, has its deadline as the next turn.
      this.schedule(grant, Infinity);
    }
    if (renewable.length > 0) this.sendByServer(renewable);
    this.armNext();
  }

  /** An answer is one for the whole batch: what a server that hangs does not answer must cost no lock on another one. */
  private sendByServer(grants: readonly Grant[]): void {
    if (this.store.serverOf === undefined) return void this.send(grants);
    const batches = new Map<string | undefined, Grant[]>();
    for (const grant of grants) {
      const server = this.store.serverOf(grant.key);
      const batch = batches.get(server);
      if (batch === undefined) batches.set(server, [grant]);
      else batch.push(grant);
    }
    for (const batch of batches.values()) void this.send(batch);
  }

  /** Ends the turns that have come; answers their grants. */
  private takeDue(now: number): readonly Grant[] {
    const due: Grant[] = [];
    for (const [turn, sharers] of this.buckets) {
      if (turn > now) continue;
      this.buckets.delete(turn);
      for (const grant of sharers) due.push(grant);
    }
    return due;
  }

  private armNext(): void {
    let next = Infinity;
    for (const turn of this.buckets.keys()) if (turn < next) next = turn;
    if (next < this.armedFor) this.arm(next);
  }

  /** Declares a grant lost whose deadline has come. */
  private isOver(grant: Grant, now: number): boolean {
    if (now < grant.deadline) return false;
    const overdue = now >= grant.maxHoldUntil;
    this.events.lost(grant, overdue ? `maxHoldMs (${grant.options.maxHoldMs}) is over` : 'its lease ran out');
    return true;
  }

  private async send(grants: readonly Grant[]): Promise<readonly ExtendReply[]> {
    const sentAt = this.clock.now();
    const request = Symbol('renewal');
    for (const grant of grants) this.inFlight.set(grant, request);
    const leases = grants.map((grant) => grant.nextLeaseMs(sentAt));
    const requests = grants.map(({ key, owner, mode }, i) => ({ keys: [key], owner, mode, leaseMs: leases[i] }));
    // A store should not throw here; if one does, that is no answer, and no reason to end the process.
    const replies = await this.store.extend(requests).catch((): readonly ExtendReply[] => []);
    grants.forEach((grant, i) => {
      const current = this.inFlight.get(grant) === request;
      if (current) this.inFlight.delete(grant);
      this.applyReply(grant, replies[i] ?? 'unknown', sentAt, leases[i], current);
    });
    return replies;
  }

  private applyReply(grant: Grant, reply: ExtendReply, sentAt: number, leaseMs: number, current: boolean): void {
    const now = this.clock.now();
    // An answer that comes after the deadline does not bring the lock back: somebody may have had it in between.
    if (grant.state !== 'held' || this.isOver(grant, now)) return;
    if (reply === 'lost') return this.events.lost(grant, TAKEN);
    if (reply === 'renewed') {
      grant.renewed(sentAt, leaseMs);
      this.events.extended(grant);
      // A lease that was not longer than the one before changes nothing: never ask again at once.
      if (grant.renewAt > now) this.schedule(grant, grant.renewAt);
      else this.retry(grant);
    } else if (current) {
      this.retry(grant);
    }
  }
}
