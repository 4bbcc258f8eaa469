import { runOutside } from '../async-context.js';
import type { ExtendReply, ExtendRequest, KeyFilter, LockStore } from '../store/lock-store.js';
import { afterPromiseJobs, type Clock, type Timer } from '../time/clock.js';
import { cutTo, type Grant, type GrantEnder, type Lease } from './grant.js';
import { type GrantGroup, ownersByServer } from './grant-groups.js';
import { LoopDelay } from './loop-delay.js';
import { OverdueHolds } from './overdue-holds.js';
import { retryMoment } from './retry-moment.js';

/** What the watchdog reports. */
export interface WatchdogEvents {
  extended(grant: Grant): void;
  lost(grant: Grant, why: string): void;
  /** Called with grants that are renewed for longer than their `warnHeldMs`. Once for each. */
  overdue?(grants: readonly Grant[], now: number): void;
}

/** A lease that was requested for a grant, and whose reply is expected. */
interface Renewal {
  /** The grant that the lease is for: the present one of a lock that was passed on locally. */
  grant: Grant;
  readonly lease: Lease;
  /** Whether the deadline has passed, and the next tick declares the grant lost if the reply was not read by then. */
  isLastChance: boolean;
}

/** Returns the lease to request for a grant at `now`, in milliseconds. */
type LeaseLength = (grant: Grant, now: number) => number;

const TAKEN = 'its key is gone or belongs to somebody else';

/** A lease is divided into this many buckets, so that many locks are renewed by one request. */
const BUCKETS_PER_LEASE = 30;

/** The longest pause between two ticks while a lock is held, and so the error of how long the loop was blocked. */
const HEARTBEAT_MS = 100;

/** How many locks one request renews. ioredis and Redis take about 10 ms for 250. */
const MAX_BATCH = 250;

/** The lease of a request that only checks whether the lock is still held, because no lease is ever shortened. */
const CHECK_MS = 1;

/**
 * Renews every grant of one module instance two thirds of its lease before its deadline, in batches. Declares a grant
 * lost if the store says so or if its local deadline has passed. A renewal without a reply is unknown: the watchdog
 * repeats it until the deadline.
 *
 * One timer serves all grants. They are sorted into buckets by the time when they are due, as in a timing wheel
 * (Varghese, Lauck: "Hashed and Hierarchical Timing Wheels", 1987).
 */
export class Watchdog {
  /** Grants by the time when they are due. */
  private readonly buckets = new Map<number, Set<Grant>>();
  private watched = 0;
  private readonly inFlight = new Map<Grant, Renewal>();
  /** The unanswered renewals of released grants, which may have been passed on to the next local caller. */
  private readonly ofReleased = new Map<GrantEnder, Renewal>();
  /** Grants whose renewal leaves at the end of this tick. */
  private urgent: Grant[] = [];
  private timer: Timer | undefined;
  private armedFor = Infinity;
  private readonly loopDelay = new LoopDelay();
  private readonly overdue: OverdueHolds;
  private clockJumps: number;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly events: WatchdogEvents,
  ) {
    this.clockJumps = this.countClockJumps();
    this.overdue = new OverdueHolds((grants, now) => events.overdue?.(grants, now));
  }

  /** How many grants are watched. */
  get size(): number {
    return this.watched;
  }

  /** How many buckets there are. @internal */
  get bucketCount(): number {
    return this.buckets.size;
  }

  /** Returns all watched grants. */
  grants(): readonly Grant[] {
    return [...this.buckets.values()].flatMap((bucket) => [...bucket]);
  }

  /**
   * Begins to watch a grant. A grant whose renewal is due already, such as a handoff, is renewed before the first line
   * of the work under it: the work may block the event loop.
   *
   * @returns whether such a renewal is requested in this tick.
   */
  watch(grant: Grant): boolean {
    const { grantedAt, renewAt } = grant;
    this.overdue.add(grant);
    const isDue = renewAt <= grantedAt && !this.inheritRenewal(grant);
    this.schedule(grant, renewAt <= grantedAt ? Infinity : renewAt);
    if (isDue) this.renewInThisTick(grant);
    return isDue;
  }

  /** Stops watching a grant. */
  forget(grant: Grant): void {
    const { dueAt } = grant;
    if (dueAt === undefined) return;
    grant.dueAt = undefined;
    this.watched -= 1;
    const renewal = this.inFlight.get(grant);
    if (renewal !== undefined) {
      this.inFlight.delete(grant);
      if (grant.state === 'ended') this.ofReleased.set(grant.ender, renewal);
    }
    this.leaveBucket(grant, dueAt);
  }

  /** Renews one grant now, for `extend()`. Returns the store's reply. */
  async renew(grant: Grant): Promise<ExtendReply> {
    const [reply] = await this.send([[grant]]);
    return reply ?? 'unknown';
  }

  /**
   * Renews all grants, or those that `concerns` selects, because the store may have lost them. A grant that must not be
   * renewed is only checked.
   */
  renewAll(concerns: KeyFilter = () => true): void {
    const grants = this.grants().filter(({ key }) => concerns(key));
    const [renewable, final] = [grants.filter(isRenewable), grants.filter((grant) => !isRenewable(grant))];
    for (const grant of renewable) this.schedule(grant, Infinity);
    this.sendByServer(renewable);
    this.sendByServer(final, () => CHECK_MS);
  }

  /** Repeats the renewals that are in flight, because the connection that ended may never deliver their replies. */
  onDisconnected(concerns: KeyFilter = () => true): void {
    const unanswered = [...this.inFlight.keys()].filter(({ key }) => concerns(key));
    for (const grant of unanswered) {
      this.inFlight.delete(grant);
      this.retry(grant);
    }
    for (const [ender, { grant }] of this.ofReleased) if (concerns(grant.key)) this.ofReleased.delete(ender);
  }

  /**
   * Returns true if a grant whose deadline has passed may still be held: a renewal was sent in time, and its reply may
   * wait at a socket.
   */
  mayBeRenewed(grant: Grant, now: number): boolean {
    const renewal = this.inFlight.get(grant);
    return renewal !== undefined && grant.canBeRenewed(renewal.lease, now);
  }

  /** Returns why a grant with a passed deadline was not renewed. */
  whyOver(grant: Grant, now: number): string {
    grant.whyOver ??= this.reasonFor(grant, now);
    return grant.whyOver;
  }

  /** Stops watching all grants. */
  close(): void {
    this.timer?.cancel();
    this.buckets.clear();
    this.watched = 0;
    this.inFlight.clear();
    this.ofReleased.clear();
  }

  /** Makes a grant due at its renewal, or at its deadline if that is sooner. */
  private schedule(grant: Grant, renewAt: number): void {
    // Rounded down: a renewal may come early, never late.
    const bucketMs = grant.ttlMs / BUCKETS_PER_LEASE;
    this.moveTo(grant, Math.floor(renewAt / bucketMs) * bucketMs);
  }

  /** Takes over the unanswered renewal of a grant that was passed on locally. Returns false if there is none. */
  private inheritRenewal(grant: Grant): boolean {
    const renewal = this.ofReleased.get(grant.ender);
    if (renewal === undefined) return false;
    this.ofReleased.delete(grant.ender);
    const { sentAt, leaseMs } = renewal.lease;
    if (renewal.grant.owner !== grant.owner || leaseMs < grant.nextLeaseMs(sentAt)) return false;
    renewal.grant = grant;
    this.inFlight.set(grant, renewal);
    return true;
  }

  /** Renews a grant before this tick ends, in batches with all others of this tick. */
  private renewInThisTick(grant: Grant): void {
    this.urgent.push(grant);
    if (this.urgent.length > 1) return;
    // The caller gets its lock by a promise that is resolved later, so its work begins after this microtask.
    const send = (): void => {
      const grants = this.urgent.splice(0).filter((each) => isWatched(each) && !this.inFlight.has(each));
      for (const owners of ownersByServer(grants, this.store)) {
        for (let i = 0; i < owners.length; i += MAX_BATCH) void this.send(owners.slice(i, i + MAX_BATCH));
      }
    };
    runOutside(() => afterPromiseJobs(send));
  }

  /** Makes a grant due after a pause, which is shorter near the deadline. */
  private retry(grant: Grant): void {
    this.moveTo(grant, retryMoment(grant, this.clock.now()));
  }

  private moveTo(grant: Grant, wantedAt: number): void {
    const dueAt = Math.min(wantedAt, Math.ceil(grant.deadline));
    const previous = grant.dueAt;
    if (previous === undefined) this.watched += 1;
    else if (previous !== dueAt) this.leaveBucket(grant, previous);
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
    const now = this.clock.now();
    const at = Math.max(now, Math.min(dueAt, now + HEARTBEAT_MS));
    if (at >= this.armedFor) return;
    this.timer?.cancel();
    this.armedFor = at;
    this.loopDelay.onArmed(at, now);
    this.timer = runOutside(() => this.clock.schedule(at - now, () => this.tick(), true));
  }

  private tick(): void {
    const now = this.clock.now();
    this.armedFor = Infinity;
    this.loopDelay.onFired(now);
    const renewable: Grant[] = [];
    for (const grant of this.takeDue(now)) {
      // A listener of a loss may release any other grant, which is then not watched any more.
      if (!isWatched(grant) || this.isOver(grant, now)) continue;
      if (isRenewable(grant) && !this.inFlight.has(grant)) renewable.push(grant);
      // Due at the deadline, until the reply of its renewal makes it due sooner.
      this.schedule(grant, Infinity);
    }
    this.sendByServer(renewable);
    if (this.overdue.isDue(now)) this.overdue.look(this.grants(), now);
    this.checkClock();
    this.armNext();
  }

  /** Renews all grants if the clocks may have stood still, because their leases may be over in the store. */
  private checkClock(): void {
    const jumps = this.countClockJumps();
    if (jumps === this.clockJumps) return;
    this.clockJumps = jumps;
    this.renewAll();
  }

  private countClockJumps(): number {
    return this.clock.forwardJumps?.() ?? 0;
  }

  /** Sends batches for each server, so that a server without a reply costs no lock of another server. */
  private sendByServer(grants: readonly Grant[], leaseLength?: LeaseLength): void {
    for (const owners of ownersByServer(grants, this.store)) this.sendInBatches(owners, leaseLength);
  }

  /** Sends the first batch now, and each further one a turn of the event loop later. */
  private sendInBatches(groups: readonly GrantGroup[], leaseLength?: LeaseLength): void {
    void this.send(groups.slice(0, MAX_BATCH), leaseLength);
    const rest = groups.slice(MAX_BATCH);
    if (rest.length === 0) return;
    const sendRest = (): void => {
      const watched = rest.map((group) => group.filter(isWatched)).filter(({ length }) => length > 0);
      this.sendInBatches(watched, leaseLength);
    };
    runOutside(() => this.clock.schedule(0, sendRest, true));
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
    if (next !== Infinity) this.arm(next);
  }

  /** Returns whether a grant's deadline has passed. Declares it lost, after the replies that have arrived were read. */
  private isOver(grant: Grant, now: number): boolean {
    if (now < grant.deadline) return false;
    const why = this.whyOver(grant, now);
    const renewal = this.inFlight.get(grant);
    if (renewal === undefined || renewal.isLastChance || !this.mayBeRenewed(grant, now)) this.events.lost(grant, why);
    else {
      renewal.isLastChance = true;
      // The event loop runs timers before it reads sockets, and reads sockets before the next tick.
      this.moveTo(grant, now);
    }
    return true;
  }

  private reasonFor(grant: Grant, now: number): string {
    if (now >= grant.maxHoldUntil) return `maxHoldMs (${grant.options.maxHoldMs}) is over`;
    const blockedMs = this.loopDelay.around(grant.deadline, now);
    // A shorter delay leaves time for a renewal: without a reply to it, that is the reason.
    if (!isRenewable(grant) || blockedMs < grant.lease.leaseMs / 2) return 'its lease ran out';
    const seconds = Math.max(blockedMs / 1000, 0.1).toFixed(1);
    return `the event loop was blocked for ${seconds} s, and its renewal could not be sent`;
  }

  /** Sends one request for each group of one owner. Returns their replies. */
  private async send(
    groups: readonly GrantGroup[],
    leaseLength: LeaseLength = (grant, now) => grant.nextLeaseMs(now),
  ): Promise<readonly ExtendReply[]> {
    const sentAt = this.clock.now();
    const renewals = groups.map((group) => group.map((grant) => this.renewalOf(grant, sentAt, leaseLength)));
    const requests = renewals.map((group): ExtendRequest => {
      const { key, owner, mode } = group[0].grant;
      const leaseMs = group.reduce((longest, { lease }) => Math.max(longest, lease.leaseMs), 0);
      return { keys: [key], owner, mode, leaseMs };
    });
    // A store must not throw here. If one does, its renewals are unknown, and the process goes on.
    const replies = await this.extend(requests).catch((): readonly ExtendReply[] => []);
    renewals.forEach((group, i) => group.forEach((renewal) => this.onReply(renewal, replies[i] ?? 'unknown')));
    return replies;
  }

  private renewalOf(grant: Grant, sentAt: number, leaseLength: LeaseLength): Renewal {
    const renewal = { grant, lease: { sentAt, leaseMs: leaseLength(grant, sentAt) }, isLastChance: false };
    if (!isCheck(renewal)) this.inFlight.set(grant, renewal);
    return renewal;
  }

  /** Rejects if the store throws. */
  private extend(requests: readonly ExtendRequest[]): Promise<readonly ExtendReply[]> {
    try {
      return this.store.extend(requests);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  private onReply(renewal: Renewal, reply: ExtendReply): void {
    const { grant } = renewal;
    const isLatest = this.inFlight.get(grant) === renewal;
    if (isLatest) this.inFlight.delete(grant);
    if (this.ofReleased.get(grant.ender) === renewal) this.ofReleased.delete(grant.ender);
    if (grant.state !== 'held') return;
    const now = this.clock.now();
    if (reply === 'renewed' && grant.canBeRenewed(renewal.lease, now)) this.onRenewed(renewal, now);
    else if (this.isOver(grant, now)) return;
    else if (reply === 'lost') this.events.lost(grant, TAKEN);
    else if (isLatest) this.retry(grant);
  }

  private onRenewed(renewal: Renewal, now: number): void {
    if (isCheck(renewal)) return;
    const { grant, lease } = renewal;
    // A lease that was requested for the previous local caller may be longer than this one wants.
    grant.renewed(cutTo(lease, grant.ttlMs, now));
    this.events.extended(grant);
    // A lease no longer than the previous one is due at once: pause, so that renewals do not follow each other.
    if (grant.renewAt > now) this.schedule(grant, grant.renewAt);
    else this.retry(grant);
  }
}

/** Returns whether a grant is to be renewed, now or later. */
function isRenewable({ renewAt }: Grant): boolean {
  return renewAt !== Infinity;
}

function isWatched({ dueAt }: Grant): boolean {
  return dueAt !== undefined;
}

/** Returns whether a request only checks that the lock is still held. */
function isCheck({ lease }: Renewal): boolean {
  return lease.leaseMs === CHECK_MS;
}
