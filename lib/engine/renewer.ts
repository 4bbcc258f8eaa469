import { runOutside } from '../common/async-context.js';
import { nameOfCall } from '../events/call.js';
import type { LockEvents } from '../events/diagnostics.js';
import { secondsOf } from '../common/format-value.js';
import { type Clock, type Timer, withTimeout } from '../clock/clock.js';
import type { ExtendReply, KeyFilter } from '../contract/store.js';
import type { Lease, Renewal } from './lease.js';
import type { Link } from './link.js';
import type { Lock } from './lock.js';

const TAKEN = 'its key is gone or belongs to someone else';
const FORCED = 'it was released by force';

/** Renewals that are due within this part of a lease travel together. */
const BUCKETS_PER_LEASE = 30;

/** The longest pause between two ticks while a lock is held, and so the error in measuring a blocked event loop. */
const HEARTBEAT_MS = 100;

/** How many locks one call of the store renews. ioredis and Redis take about 10 ms for 250. */
const MAX_BATCH = 250;

/** The pause before a renewal is repeated, and its lower limit near the deadline, as parts of the lease. */
const RETRY_AFTER = 1 / 10;
const RETRY_AFTER_AT_LEAST = 1 / 50;
const RETRY_AFTER_AT_MOST_MS = 1_000;

/**
 * Renews the leases of an engine in batches, and ends the locks whose deadlines have passed. The result of a renewal
 * without a reply is unknown, so it is repeated until the deadline.
 *
 * One timer serves all leases. They are sorted into buckets by the time when they are due, as in a timing wheel
 * (Varghese, Lauck: "Hashed and Hierarchical Timing Wheels", 1987).
 */
export class Renewer {
  /** The leases by the time when they are due. */
  private readonly buckets = new Map<number, Set<Lease>>();
  private timer: Timer | undefined = undefined;
  /** When the timer is due. Infinity without a timer. */
  private armedFor = Infinity;
  /** When the event loop, or the whole process, was last blocked: the timer was due, and fired later. */
  private blocked = { from: 0, until: 0 };
  private clockJumps: number;

  constructor(
    private readonly link: Link,
    private readonly clock: Clock,
    /** Gets the events of renewals, and a line about each hold that is held for too long. */
    private readonly log: { readonly events: LockEvents; readonly warn: (message: string) => void },
  ) {
    this.clockJumps = this.countClockJumps();
  }

  /** Begins to watch a lease, or adapts to a change of its locks. */
  watch(lease: Lease, now: number): void {
    // Work that begins may block the event loop, so a renewal that is due does not wait for the end of a pause.
    lease.renewNotBefore = 0;
    if (renewalDueAt(lease) <= now && lease.renewal === undefined) void this.send([lease]);
    this.moveTo(lease, nextLookAt(lease));
  }

  /** Renews a lease now, or again after the reply that is on its way, which may be out of date. */
  renewNow(lease: Lease): void {
    if (lease.renewal === undefined) void this.send([lease]);
    else lease.mustRenewAgain = true;
  }

  /** Stops watching a lease. */
  forget(lease: Lease): void {
    const { dueAt } = lease;
    if (dueAt === undefined) return;
    lease.dueAt = undefined;
    const bucket = this.buckets.get(dueAt);
    // The timer stays set, because a tick without work costs less than a new timer for every lock.
    if (bucket?.delete(lease) && bucket.size === 0) this.buckets.delete(dueAt);
  }

  /** Returns the callers' locks of all watched leases. */
  locks(): readonly Lock[] {
    return this.leases().flatMap(({ locks }) => locks);
  }

  /** Renews the lease of a lock now, for `extend()`. Returns the store's reply. */
  async extend(lock: Lock): Promise<ExtendReply> {
    const sent = this.send([lock.lease], lock.wantedLeaseMs(this.clock.now()));
    const [reply = 'unknown'] = await withTimeout(this.clock, this.link.limitMs, sent, () => []);
    return reply;
  }

  /** Renews all leases now, or those that `concerns` selects, because the store may have lost them. */
  renewAll(concerns?: KeyFilter): void {
    this.sendByServer(this.leases(concerns));
  }

  /**
   * Returns whether a lock whose deadline has passed may still be held, because a renewal was sent in time and its
   * reply may be unread in the socket buffer.
   */
  mayBeRenewed(lock: Lock, now: number): boolean {
    const { renewal } = lock.lease;
    return renewal !== undefined && lock.lease.canBeRenewed(lock, renewal, now);
  }

  /** Returns why a lock with a passed deadline was not renewed, as it was when that was first asked. */
  whyOver(lock: Lock, now: number): string {
    lock.whyOver ??= this.reasonFor(lock, now);
    return lock.whyOver;
  }

  /** Cancels the timer. */
  close(): void {
    this.timer?.cancel();
  }

  private leases(concerns: KeyFilter = () => true): readonly Lease[] {
    return [...this.buckets.values()].flatMap((bucket) => [...bucket].filter(({ key }) => concerns(key)));
  }

  private moveTo(lease: Lease, dueAt: number): void {
    if (lease.dueAt === dueAt) return;
    this.forget(lease);
    lease.dueAt = dueAt;
    const bucket = this.buckets.get(dueAt);
    if (bucket === undefined) this.buckets.set(dueAt, new Set([lease]));
    else bucket.add(lease);
    if (dueAt < this.armedFor) this.arm(dueAt);
  }

  private arm(dueAt: number): void {
    const now = this.clock.now();
    const at = Math.max(now, Math.min(dueAt, now + HEARTBEAT_MS));
    if (at >= this.armedFor) return;
    this.timer?.cancel();
    this.noteDelay(now);
    this.armedFor = at;
    this.timer = runOutside(() => this.clock.schedule(at - now, () => this.tick(), true));
  }

  private tick(): void {
    const now = this.clock.now();
    this.noteDelay(now);
    this.armedFor = Infinity;
    const renewable: Lease[] = [];
    for (const lease of this.takeDue(now)) {
      // The end of a lock may end others, because it runs their callers' code.
      for (const lock of Array.from(lease.locks)) this.look(lock, now);
      if (lease.locks.length === 0) continue;
      const isDue = lease.renewal === undefined && renewalDueAt(lease) <= now;
      if (isDue) renewable.push(lease);
      this.moveTo(lease, isDue ? firstEndOf(lease) : nextLookAt(lease));
    }
    this.sendByServer(renewable);
    this.checkClock();
    this.armNext();
  }

  /** Declares a lock lost if its deadline has passed, after reading the replies that have arrived. */
  private look(lock: Lock, now: number): void {
    if (!lock.isAlive) return;
    if (now < lock.deadline) {
      if (now >= lock.warnAt) this.report(lock, now);
      return;
    }
    const why = this.whyOver(lock, now);
    const { renewal, queue } = lock.lease;
    if (renewal === undefined || renewal.isLastChance || !this.mayBeRenewed(lock, now)) queue.lose(lock, why);
    // The event loop runs timers before it reads sockets, and reads sockets before the next tick.
    else renewal.isLastChance = true;
  }

  private reasonFor(lock: Lock, now: number): string {
    if (now >= lock.limit) return `maxHoldMs (${lock.options.maxHoldMs}) has elapsed`;
    // The timer is overdue if the loop has not come to it yet.
    this.noteDelay(now);
    const { from, until } = this.blocked;
    const blockedMs = from < lock.deadline && lock.deadline <= until ? until - from : 0;
    // A shorter delay leaves time for a renewal. If that got no reply, the delay is not the reason.
    if (blockedMs < lock.lease.longestMs / 2) return 'its lease ran out';
    const seconds = Math.max(blockedMs / 1000, 0.1).toFixed(1);
    return `the event loop was blocked for ${seconds} s, and its renewal could not be sent`;
  }

  private noteDelay(now: number): void {
    if (now > this.armedFor) this.blocked = { from: this.armedFor, until: now };
  }

  /** Logs once that a lock is held for longer than its `warnHeldMs`. */
  private report(lock: Lock, now: number): void {
    lock.warnAt = Infinity;
    const { resource, options } = lock;
    const { method = 'a call of LockService', label, mode, warnHeldMs } = options;
    const name = nameOfCall(resource, { method, label, mode });
    const held = `The lock on ${name} has been held for ${secondsOf(now - lock.grantedAt)}`;
    this.log.warn(`${held}, and is still renewed: its work may hang (warnHeldMs: ${String(warnHeldMs)}).`);
    this.log.events.overdue(lock, now);
  }

  /** Renews all leases if the clocks may have stopped, because the leases may be over in the store. */
  private checkClock(): void {
    const jumps = this.countClockJumps();
    if (jumps === this.clockJumps) return;
    this.clockJumps = jumps;
    this.renewAll();
  }

  private countClockJumps(): number {
    return this.clock.forwardJumps?.() ?? 0;
  }

  /** Removes the buckets that are due. Returns their leases. */
  private takeDue(now: number): readonly Lease[] {
    const due: Lease[] = [];
    for (const [dueAt, bucket] of this.buckets) {
      if (dueAt > now) continue;
      this.buckets.delete(dueAt);
      for (const lease of bucket) {
        lease.dueAt = undefined;
        due.push(lease);
      }
    }
    return due;
  }

  private armNext(): void {
    let next = Infinity;
    for (const dueAt of this.buckets.keys()) if (dueAt < next) next = dueAt;
    if (next !== Infinity) this.arm(next);
  }

  /** Sends batches for each server, so that a server without a reply costs no locks on another server. */
  private sendByServer(leases: readonly Lease[]): void {
    const byServer = new Map<string | undefined, Lease[]>();
    for (const lease of leases) {
      const server = this.link.store.serverOf(lease.key);
      const group = byServer.get(server);
      if (group === undefined) byServer.set(server, [lease]);
      else group.push(lease);
    }
    for (const group of byServer.values()) this.sendInBatches(group);
  }

  /** Sends the first batch now, and each further one a turn of the event loop later. */
  private sendInBatches(leases: readonly Lease[]): void {
    void this.send(leases.slice(0, MAX_BATCH));
    const rest = leases.slice(MAX_BATCH);
    if (rest.length === 0) return;
    const next = (): void => this.sendInBatches(rest.filter(({ locks }) => locks.length > 0));
    runOutside(() => this.clock.schedule(0, next, true));
  }

  /** @param atLeastMs the shortest lease to request. Default: one that only checks whether the lock is held. */
  private async send(leases: readonly Lease[], atLeastMs = 1): Promise<readonly ExtendReply[]> {
    const sentAt = this.clock.now();
    const renewals = leases.map((lease): Renewal => {
      const leaseMs = Math.max(atLeastMs, lease.wantedLeaseMs(sentAt));
      const renewal = { sentAt, leaseMs, isLastChance: false };
      lease.renewal = renewal;
      lease.mustRenewAgain = false;
      lease.longestMs = Math.max(lease.longestMs, leaseMs);
      return renewal;
    });
    const requests = leases.map(({ key, owner, mode }, i) => ({ key, owner, mode, leaseMs: renewals[i].leaseMs }));
    const replies = await this.link.extend(requests);
    leases.forEach((lease, i) => this.onReply(lease, renewals[i], replies[i] ?? 'unknown'));
    return replies;
  }

  private onReply(lease: Lease, renewal: Renewal, reply: ExtendReply): void {
    if (lease.renewal === renewal) lease.renewal = undefined;
    const now = this.clock.now();
    const isRenewed = reply === 'renewed' && renewal.leaseMs > 1;
    for (const lock of Array.from(lease.locks)) {
      if (reply === 'lost') lease.queue.lose(lock, this.whyLost(lock, now));
      else if (!isRenewed || !lease.canBeRenewed(lock, renewal, now)) this.look(lock, now);
    }
    if (lease.locks.length === 0 || lease.dueAt === undefined) return;
    // A lease that is not longer than the last one is due at once. The pause keeps renewals apart.
    lease.renewNotBefore = now + retryPauseOf(lease, now);
    if (isRenewed) this.onRenewed(lease, renewal);
    // A message that came meanwhile may be about the time after this reply.
    if (reply === 'renewed') lease.isForced &&= lease.mustRenewAgain;
    if (lease.mustRenewAgain) this.renewNow(lease);
    this.moveTo(lease, nextLookAt(lease));
  }

  private onRenewed(lease: Lease, renewal: Renewal): void {
    lease.renewed(renewal);
    for (const lock of Array.from(lease.locks)) {
      lock.whyOver = undefined;
      this.log.events.extended(lock);
    }
  }

  private whyLost(lock: Lock, now: number): string {
    if (now >= lock.deadline) return this.whyOver(lock, now);
    return lock.lease.isForced ? FORCED : TAKEN;
  }
}

/** Returns when the renewer looks at a lease next. */
function nextLookAt(lease: Lease): number {
  const at = firstEndOf(lease);
  return lease.renewal === undefined ? Math.min(at, renewalDueAt(lease)) : at;
}

/** Returns the first deadline of a lease's locks, or when one of them is to be reported. */
function firstEndOf({ locks }: Lease): number {
  let at = Infinity;
  for (const { deadline, warnAt } of locks) at = Math.min(at, Math.ceil(Math.min(deadline, warnAt)));
  return at;
}

/** Returns when to renew a lease. Rounded down, because a renewal may come early, but never late. */
function renewalDueAt({ renewAt, renewNotBefore, longestMs }: Lease): number {
  const bucketMs = longestMs / BUCKETS_PER_LEASE;
  return Math.max(renewNotBefore, Math.floor(renewAt / bucketMs) * bucketMs);
}

/** Returns how long to wait before a renewal that has brought nothing is repeated. Shorter near the deadline. */
function retryPauseOf({ longestMs, deadline }: Lease, now: number): number {
  const longest = Math.min(longestMs * RETRY_AFTER, RETRY_AFTER_AT_MOST_MS);
  const shortest = Math.min(longestMs * RETRY_AFTER_AT_LEAST, RETRY_AFTER_AT_MOST_MS);
  return Math.max(shortest, Math.min(longest, (deadline - now) / 2));
}
