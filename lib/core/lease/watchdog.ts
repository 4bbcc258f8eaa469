import { runOutside } from '../async-context.js';
import type { ExtendReply, KeyFilter, LockStore } from '../store/lock-store.js';
import type { Clock, Timer } from '../time/clock.js';
import type { Grant } from './grant.js';

/** What the watchdog reports. */
export interface WatchdogEvents {
  extended(grant: Grant): void;
  lost(grant: Grant, why: string): void;
}

const TAKEN = 'its key is gone or belongs to somebody else';

/** A lease that is short from the start is extended within this time. */
const CONFIRM_AFTER_MS = 20;

/** A lease is divided into this many buckets, so that many locks are renewed by one request. */
const BUCKETS_PER_LEASE = 30;

/**
 * The pause before an unanswered renewal is repeated, and its lower limit near the deadline, as fractions of the lease.
 */
const RETRY_AFTER = 1 / 10;
const RETRY_AFTER_AT_LEAST = 1 / 50;

/**
 * Renews every grant of one module instance at a third of its lease, in batches. Declares a grant lost if the store
 * says so or if its local deadline has passed. A renewal without a reply is unknown: the watchdog repeats it until the
 * deadline.
 *
 * One timer serves all grants. They are sorted into buckets by the time when they are due, as in a timing wheel
 * (Varghese, Lauck: "Hashed and Hierarchical Timing Wheels", 1987).
 */
export class Watchdog {
  /** Grants by the time when they are due. */
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

  /** How many grants are watched. */
  get size(): number {
    return this.watched;
  }

  /** How many buckets there are. @internal */
  get bucketCount(): number {
    return this.buckets.size;
  }

  /** Returns all watched grants. */
  grants(): Iterable<Grant> {
    return [...this.buckets.values()].flatMap((bucket) => [...bucket]);
  }

  /** Begins to watch a grant. */
  watch(grant: Grant): void {
    if (grant.renewAt !== Infinity && grant.isShort) this.moveTo(grant, this.confirmationOf(grant));
    else this.schedule(grant, grant.renewAt);
  }

  /** Stops watching a grant. */
  forget(grant: Grant): void {
    const { dueAt } = grant;
    if (dueAt === undefined) return;
    grant.dueAt = undefined;
    this.watched -= 1;
    this.inFlight.delete(grant);
    this.leaveBucket(grant, dueAt);
  }

  /** Renews one grant now, for `extend()`. Returns the store's reply. */
  async renew(grant: Grant): Promise<ExtendReply> {
    const [reply] = await this.send([grant]);
    return reply ?? 'unknown';
  }

  /** Repeats the renewals that are in flight, because the connection that ended may never deliver their replies. */
  onDisconnected(concerns: KeyFilter = () => true): void {
    const unanswered = [...this.inFlight.keys()].filter(({ key }) => concerns(key));
    for (const grant of unanswered) {
      this.inFlight.delete(grant);
      this.retry(grant);
    }
  }

  /** Stops watching all grants. */
  close(): void {
    this.timer?.cancel();
    this.buckets.clear();
    this.watched = 0;
    this.inFlight.clear();
  }

  /** Makes a grant due at its renewal, or at its deadline if that is sooner. */
  private schedule(grant: Grant, renewAt: number): void {
    // Rounded down: a renewal at a third of the lease may come early, never late.
    const bucketMs = grant.ttlMs / BUCKETS_PER_LEASE;
    this.moveTo(grant, Math.floor(renewAt / bucketMs) * bucketMs);
  }

  /** Returns when a lease that is short from the start is extended. */
  private confirmationOf(grant: Grant): number {
    // One bucket later than now, so that the shortest holds are released without a renewal.
    const bucketMs = Math.min(CONFIRM_AFTER_MS, grant.lease.leaseMs / BUCKETS_PER_LEASE);
    return Math.ceil(this.clock.now() / bucketMs + 1) * bucketMs;
  }

  /** Makes a grant due after a pause, which is shorter near the deadline. */
  private retry(grant: Grant): void {
    const now = this.clock.now();
    const { ttlMs } = grant;
    const delayMs = Math.max(ttlMs * RETRY_AFTER_AT_LEAST, Math.min(ttlMs * RETRY_AFTER, (grant.deadline - now) / 2));
    // Rounded up, so that the pause is never zero.
    const bucketMs = ttlMs * RETRY_AFTER_AT_LEAST;
    this.moveTo(grant, Math.ceil((now + delayMs) / bucketMs) * bucketMs);
  }

  private moveTo(grant: Grant, wantedAt: number): void {
    const dueAt = Math.min(wantedAt, Math.ceil(grant.deadline));
    const previous = grant.dueAt;
    if (previous === dueAt) return;
    if (previous === undefined) this.watched += 1;
    else this.leaveBucket(grant, previous);
    grant.dueAt = dueAt;
    const bucket = this.buckets.get(dueAt);
    if (bucket === undefined) this.buckets.set(dueAt, new Set([grant]));
    else bucket.add(grant);
    if (dueAt < this.armedFor) this.arm(dueAt);
  }

  private leaveBucket(grant: Grant, dueAt: number): void {
    const bucket = this.buckets.get(dueAt);
    // The timer stays set: a tick without work costs less than a new timer for every lock.
    if (bucket?.delete(grant) && bucket.size === 0) this.buckets.delete(dueAt);
  }

  private arm(dueAt: number): void {
    this.timer?.cancel();
    this.armedFor = dueAt;
    const delayMs = Math.max(0, dueAt - this.clock.now());
    this.timer = runOutside(() => this.clock.schedule(delayMs, () => this.tick(), true));
  }

  private tick(): void {
    this.armedFor = Infinity;
    const now = this.clock.now();
    const renewable: Grant[] = [];
    for (const grant of this.takeDue(now)) {
      // A listener of a loss may release any other grant, which is then not watched any more.
      if (grant.dueAt === undefined || this.isOver(grant, now)) continue;
      if (grant.renewAt !== Infinity && !this.inFlight.has(grant)) renewable.push(grant);
      // Due at the deadline, until the reply of its renewal makes it due sooner.
      this.schedule(grant, Infinity);
    }
    if (renewable.length > 0) this.sendByServer(renewable);
    this.armNext();
  }

  /** Sends one batch to each server, so that a server without a reply costs no lock of another server. */
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

  /** Removes the buckets that are due. Returns their grants. */
  private takeDue(now: number): readonly Grant[] {
    const due: Grant[] = [];
    for (const [dueAt, bucket] of this.buckets) {
      if (dueAt > now) continue;
      this.buckets.delete(dueAt);
      for (const grant of bucket) due.push(grant);
    }
    return due;
  }

  private armNext(): void {
    let next = Infinity;
    for (const dueAt of this.buckets.keys()) if (dueAt < next) next = dueAt;
    if (next < this.armedFor) this.arm(next);
  }

  /** Returns whether a grant's deadline has passed, and then declares it lost. */
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
    // A store must not throw here. If one does, its renewals are unknown, and the process goes on.
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
    // A reply after the deadline does not bring the lock back: another holder may have had it in between.
    if (grant.state !== 'held' || this.isOver(grant, now)) return;
    if (reply === 'lost') return this.events.lost(grant, TAKEN);
    if (reply === 'renewed') {
      grant.renewed(sentAt, leaseMs);
      this.events.extended(grant);
      // A lease no longer than the previous one is due at once: pause, so that renewals do not follow each other.
      if (grant.renewAt > now) this.schedule(grant, grant.renewAt);
      else this.retry(grant);
    } else if (current) {
      this.retry(grant);
    }
  }
}
