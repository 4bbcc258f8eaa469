import { runOutside } from '../context/async-context.js';
import type { ExtendReply, ExtendRequest, KeyFilter, LockStore } from '../store/lock-store.js';
import { afterPromiseJobs, type Clock, type Timer } from '../time/clock.js';
import type { Grant, Ownership, Renewal } from './grant.js';
import { cutTo } from './lease.js';
import { LoopDelay } from './loop-delay.js';
import type { OverdueHolds } from './overdue-holds.js';
import { retryMoment } from './retry-moment.js';

/** What the watchdog reports. */
export interface WatchdogEvents {
  extended(grant: Grant): void;
  lost(grant: Grant, why: string): void;
}

const TAKEN = 'its key is gone or belongs to someone else';

/** A lease is divided into this many buckets, so that many locks are renewed by one request. */
const BUCKETS_PER_LEASE = 30;

/** The longest pause between two ticks while a lock is held, and so the error in measuring a blocked event loop. */
const HEARTBEAT_MS = 100;

/**
 * How many locks one call of the store renews. ioredis and Redis take about 10 ms for 250. The store `token()` sends
 * them to Redis in script calls of at most 64.
 */
const MAX_BATCH = 250;

/** The lease of a request that only checks whether the lock is still held, because no lease is ever shortened. */
export const CHECK_MS = 1;

/**
 * Renews every ownership of one module instance two thirds of its lease before its deadline, in batches. Declares a
 * grant lost if the store says so or if its local deadline has passed. The result of a renewal without a reply is
 * unknown, so the watchdog repeats it until the deadline.
 *
 * One timer serves all ownerships. They are sorted into buckets by the time when they are due, as in a timing wheel
 * (Varghese, Lauck: "Hashed and Hierarchical Timing Wheels", 1987).
 */
export class Watchdog {
  /** The ownerships by the time when they are due. */
  private readonly buckets = new Map<number, Set<Ownership>>();
  private watched = 0;
  /** The ownerships whose renewal is sent at the end of this tick. */
  private readonly urgent = new Set<Ownership>();
  private timer: Timer | undefined;
  private armedFor = Infinity;
  private readonly loopDelay = new LoopDelay();
  private clockJumps: number;

  constructor(
    private readonly store: LockStore,
    private readonly clock: Clock,
    private readonly events: WatchdogEvents,
    private readonly overdue: OverdueHolds,
    /** By how much Redis keeps a lock longer than its lease, in milliseconds (`lockDelayMs`). */
    private readonly lockDelayMs: number,
  ) {
    this.clockJumps = this.countClockJumps();
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
    return this.ownerships().flatMap(watchedOf);
  }

  /** Returns the ownerships with a watched grant: all, or those whose key `concerns` selects. */
  ownerships(concerns: KeyFilter = () => true): readonly Ownership[] {
    return [...this.buckets.values()].flatMap((bucket) => [...bucket].filter(({ key }) => concerns(key)));
  }

  /**
   * Begins to watch a grant. A grant whose renewal is already due, such as that of a handoff, is renewed before the
   * first line of the work under it, because the work may block the event loop.
   *
   * @returns whether such a renewal is requested in this tick.
   */
  watch(grant: Grant): boolean {
    const { ownership } = grant;
    grant.isWatched = true;
    this.watched += 1;
    this.overdue.add(grant);
    const isDue = grant.renewAt <= grant.grantedAt;
    const isUrgent = isDue && !isCovered(grant);
    const dueAt = isDue ? Infinity : bucketOf(grant);
    this.moveTo(ownership, Math.min(dueAt, Math.ceil(grant.deadline), ownership.dueAt ?? Infinity));
    if (isUrgent) this.renewInThisTick(ownership);
    return isUrgent;
  }

  /** Stops watching a grant. */
  forget(grant: Grant): void {
    if (!grant.isWatched) return;
    grant.isWatched = false;
    this.watched -= 1;
    if (!isWatched(grant.ownership)) this.leaveBucket(grant.ownership);
  }

  /** Renews the ownership of a grant now, for `extend()`. Returns the store's reply. */
  async renew(grant: Grant): Promise<ExtendReply> {
    const [reply] = await this.send([grant.ownership], grant);
    return reply ?? 'unknown';
  }

  /**
   * Renews all ownerships, or those that `concerns` selects, because the store may have lost them. An ownership that
   * must not be renewed is only checked.
   */
  renewAll(concerns?: KeyFilter): void {
    const ownerships = this.ownerships(concerns);
    for (const ownership of ownerships) this.moveTo(ownership, deadlineOfAll(ownership));
    this.sendByServer(ownerships);
  }

  /** Repeats the renewals that are in flight, because the connection that ended may never deliver their replies. */
  onDisconnected(concerns?: KeyFilter): void {
    for (const ownership of this.ownerships(concerns)) {
      if (ownership.renewal === undefined) continue;
      ownership.renewal = undefined;
      this.retry(ownership);
    }
  }

  /**
   * Returns true if a grant whose deadline has passed may still be held, because a renewal was sent in time and its
   * reply may be unread in the socket buffer.
   */
  mayBeRenewed(grant: Grant, now: number): boolean {
    const { renewal } = grant.ownership;
    return renewal !== undefined && grant.canBeRenewed(renewal.lease, now);
  }

  /** Returns why a grant with a passed deadline was not renewed. */
  whyOver(grant: Grant, now: number): string {
    grant.whyOver ??= this.reasonFor(grant, now);
    return grant.whyOver;
  }

  /** Cancels its timer. All grants must have ended. */
  close(): void {
    this.timer?.cancel();
  }

  /** Renews an ownership before this tick ends, in batches with all others of this tick. */
  private renewInThisTick(ownership: Ownership): void {
    this.urgent.add(ownership);
    if (this.urgent.size > 1) return;
    // The caller gets its lock through a promise that is resolved later, so its work begins after this microtask.
    const send = (): void => {
      const ownerships = [...this.urgent].filter((each) => watchedOf(each).some(needsRenewal));
      this.urgent.clear();
      for (const ofServer of this.byServer(ownerships)) {
        for (let i = 0; i < ofServer.length; i += MAX_BATCH) void this.send(ofServer.slice(i, i + MAX_BATCH));
      }
    };
    runOutside(() => afterPromiseJobs(send));
  }

  /** Makes an ownership due after a pause, which is shorter near a deadline. */
  private retry(ownership: Ownership): void {
    const now = this.clock.now();
    const dueAt = watchedOf(ownership).reduce((next, grant) => Math.min(next, retryMoment(grant, now)), Infinity);
    this.moveTo(ownership, Math.min(dueAt, deadlineOfAll(ownership)));
  }

  private moveTo(ownership: Ownership, dueAt: number): void {
    if (ownership.dueAt === dueAt) return;
    this.leaveBucket(ownership);
    ownership.dueAt = dueAt;
    const bucket = this.buckets.get(dueAt);
    if (bucket === undefined) this.buckets.set(dueAt, new Set([ownership]));
    else bucket.add(ownership);
    if (dueAt < this.armedFor) this.arm(dueAt);
  }

  private leaveBucket(ownership: Ownership): void {
    const { dueAt } = ownership;
    if (dueAt === undefined) return;
    ownership.dueAt = undefined;
    const bucket = this.buckets.get(dueAt);
    // The timer stays set, because a tick without work costs less than a new timer for every lock.
    if (bucket?.delete(ownership) && bucket.size === 0) this.buckets.delete(dueAt);
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
    const renewable: Ownership[] = [];
    for (const ownership of this.takeDue(now)) {
      // A listener of a loss may release any other grant, which is then not watched.
      for (const grant of watchedOf(ownership)) if (grant.isWatched) this.loseIfOver(grant, now);
      if (!isWatched(ownership)) continue;
      const isDue = watchedOf(ownership).some((grant) => bucketOf(grant) <= now);
      if (isDue && ownership.renewal === undefined) renewable.push(ownership);
      // Due at the deadline, until the reply to its renewal makes it due sooner.
      this.moveTo(ownership, isDue ? deadlineOfAll(ownership) : nextOf(ownership));
    }
    this.sendByServer(renewable);
    if (this.overdue.isDue(now)) this.overdue.look(this.grants(), now);
    this.checkClock();
    this.armNext();
  }

  /** Renews all ownerships if the clocks may have stopped, because their leases may be over in the store. */
  private checkClock(): void {
    const jumps = this.countClockJumps();
    if (jumps === this.clockJumps) return;
    this.clockJumps = jumps;
    this.renewAll();
  }

  private countClockJumps(): number {
    return this.clock.forwardJumps?.() ?? 0;
  }

  /** Sends batches for each server, so that a server without a reply costs no locks on another server. */
  private sendByServer(ownerships: readonly Ownership[]): void {
    for (const ofServer of this.byServer(ownerships)) this.sendInBatches(ofServer);
  }

  private byServer(ownerships: readonly Ownership[]): Iterable<readonly Ownership[]> {
    const groups = new Map<string | undefined, Ownership[]>();
    for (const ownership of ownerships) {
      const server = this.store.serverOf?.(ownership.key);
      const group = groups.get(server);
      if (group === undefined) groups.set(server, [ownership]);
      else group.push(ownership);
    }
    return groups.values();
  }

  /** Sends the first batch now, and each further one a turn of the event loop later. */
  private sendInBatches(ownerships: readonly Ownership[]): void {
    void this.send(ownerships.slice(0, MAX_BATCH));
    const rest = ownerships.slice(MAX_BATCH);
    if (rest.length === 0) return;
    runOutside(() => this.clock.schedule(0, () => this.sendInBatches(rest.filter(isWatched)), true));
  }

  /** Removes the buckets that are due. Returns their ownerships. */
  private takeDue(now: number): readonly Ownership[] {
    const due: Ownership[] = [];
    for (const [dueAt, bucket] of this.buckets) {
      if (dueAt > now) continue;
      this.buckets.delete(dueAt);
      for (const ownership of bucket) {
        ownership.dueAt = undefined;
        due.push(ownership);
      }
    }
    return due;
  }

  private armNext(): void {
    let next = Infinity;
    for (const dueAt of this.buckets.keys()) if (dueAt < next) next = dueAt;
    if (next !== Infinity) this.arm(next);
  }

  /**
   * Declares a grant lost if its deadline has passed, after reading the replies that have arrived. Returns whether the
   * deadline has passed.
   */
  private loseIfOver(grant: Grant, now: number): boolean {
    if (now < grant.deadline) return false;
    const why = this.whyOver(grant, now);
    const { renewal } = grant.ownership;
    if (renewal === undefined || renewal.isLastChance || !this.mayBeRenewed(grant, now)) this.events.lost(grant, why);
    // The event loop runs timers before it reads sockets, and reads sockets before the next tick.
    else renewal.isLastChance = true;
    return true;
  }

  private reasonFor(grant: Grant, now: number): string {
    if (now >= grant.maxHoldUntil) return `maxHoldMs (${grant.options.maxHoldMs}) has elapsed`;
    const blockedMs = this.loopDelay.around(grant.deadline, now);
    // A shorter delay leaves time for a renewal. If that got no reply, the delay is not the reason.
    if (blockedMs < grant.lease.leaseMs / 2) return 'its lease ran out';
    const seconds = Math.max(blockedMs / 1000, 0.1).toFixed(1);
    return `the event loop was blocked for ${seconds} s, and its renewal could not be sent`;
  }

  /**
   * Sends one request for each ownership. Returns their replies.
   *
   * @param target a grant of the only ownership, which is renewed in any case.
   */
  private async send(ownerships: readonly Ownership[], target?: Grant): Promise<readonly ExtendReply[]> {
    const sentAt = this.clock.now();
    const renewals = ownerships.map((ownership): Renewal => {
      const wanted = watchedOf(ownership).filter((grant) => grant === target || isRenewable(grant));
      const leaseMs = wanted.reduce((longest, grant) => Math.max(longest, grant.nextLeaseMs(sentAt)), CHECK_MS);
      const renewal = { lease: { sentAt, leaseMs }, target, isLastChance: false };
      if (wanted.length > 0) ownership.renewal = renewal;
      return renewal;
    });
    const requests = ownerships.map(({ key, owner, mode }, i): ExtendRequest => {
      return { keys: [key], owner, mode, leaseMs: renewals[i].lease.leaseMs + this.lockDelayMs };
    });
    // A store must not reject here. If one does, its renewals are unknown, and the process continues.
    const replies = await this.store.extend(requests).catch((): readonly ExtendReply[] => []);
    ownerships.forEach((ownership, i) => this.onReply(ownership, renewals[i], replies[i] ?? 'unknown'));
    return replies;
  }

  private onReply(ownership: Ownership, renewal: Renewal, reply: ExtendReply): void {
    const isLatest = ownership.renewal === renewal;
    if (isLatest) ownership.renewal = undefined;
    const now = this.clock.now();
    for (const grant of watchedOf(ownership)) {
      // A listener to an event may have released the grant.
      if (!grant.isWatched) continue;
      if (reply === 'renewed' && grant.canBeRenewed(renewal.lease, now)) this.onRenewed(grant, renewal, now);
      else if (!this.loseIfOver(grant, now) && reply === 'lost') this.events.lost(grant, TAKEN);
    }
    if (!isWatched(ownership)) return;
    const dueAt = reply === 'renewed' ? nextOf(ownership) : now;
    // A lease that is not longer than the previous one is due immediately. A pause keeps renewals apart.
    if (dueAt > now) this.moveTo(ownership, dueAt);
    else if (isLatest) this.retry(ownership);
  }

  private onRenewed(grant: Grant, { lease, target }: Renewal, now: number): void {
    // Another grant of the ownership was renewed, or the request was a check.
    if (grant !== target && !isRenewable(grant)) return;
    // A lease that was requested for another caller may be longer than this one wants.
    grant.renewed(cutTo(lease, grant.ttlMs, now));
    this.events.extended(grant);
  }
}

/** Returns whether a grant is to be renewed, now or later. */
function isRenewable({ renewAt }: Grant): boolean {
  return renewAt !== Infinity;
}

/** Returns whether a renewal that is on its way brings the lease that the grant needs. */
function isCovered(grant: Grant): boolean {
  const { renewal } = grant.ownership;
  return renewal !== undefined && renewal.lease.leaseMs >= grant.nextLeaseMs(renewal.lease.sentAt);
}

/** Returns whether a grant is to be renewed before its work begins. */
function needsRenewal(grant: Grant): boolean {
  return grant.renewAt <= grant.grantedAt && !isCovered(grant);
}

/** Returns when a grant is to be renewed. Rounded down, because a renewal may come early, but never late. */
function bucketOf({ renewAt, ttlMs }: Grant): number {
  const bucketMs = ttlMs / BUCKETS_PER_LEASE;
  return Math.floor(renewAt / bucketMs) * bucketMs;
}

function watchedOf({ grants }: Ownership): readonly Grant[] {
  return grants.filter((grant) => grant.isWatched);
}

function isWatched({ grants }: Ownership): boolean {
  for (const grant of grants) if (grant.isWatched) return true;
  return false;
}

/** Returns the first deadline of an ownership's grants. */
function deadlineOfAll(ownership: Ownership): number {
  return watchedOf(ownership).reduce((first, { deadline }) => Math.min(first, Math.ceil(deadline)), Infinity);
}

/** Returns when the watchdog looks at an ownership next. */
function nextOf(ownership: Ownership): number {
  return watchedOf(ownership).reduce((next, grant) => Math.min(next, bucketOf(grant)), deadlineOfAll(ownership));
}
