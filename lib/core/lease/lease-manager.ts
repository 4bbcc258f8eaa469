import type { LockEvents } from '../events/diagnostics.js';
import { LockUnavailableError } from '../errors.js';
import { runOutside } from '../context/async-context.js';
import type { ExtendReply, LockStore } from '../store/lock-store.js';
import { repliesRead } from '../time/replies-read.js';
import type { TimeoutPool } from '../time/timeout-pool.js';
import { ForceChecks } from './force-checks.js';
import type { Grant } from './grant.js';
import { describeOverdue, OverdueHolds } from './overdue-holds.js';
import { Watchdog, type WatchdogEvents } from './watchdog.js';

/** How the leases of one module instance are kept. */
export interface LeaseOptions {
  /** By how much Redis keeps a lock longer than its lease, in milliseconds. */
  readonly lockDelayMs: number;
  /** Throws `LockConfigError` if this is not a valid lease. */
  checkTtl(ttlMs: number): void;
  /** Called with one line for each lost lock, and for each lock that is held for too long. */
  warn(message: string): void;
  /** Called when a hold has ended. */
  onEnded?(): void;
  /** Called with each release of a grant. */
  onReleasing?(grant: Grant, released: Promise<boolean>): void;
}

/** Extends, ends and loses the grants of one module instance, and publishes what happens to them. */
export class LeaseManager {
  readonly watchdog: Watchdog;
  private readonly forceChecks: ForceChecks;

  constructor(
    store: LockStore,
    private readonly clock: TimeoutPool,
    private readonly events: LockEvents,
    private readonly options: LeaseOptions,
  ) {
    const overdue = new OverdueHolds((grant, now) => {
      options.warn(describeOverdue(grant, now));
      events.overdue(grant, now);
    });
    const watched: WatchdogEvents = {
      extended: (grant) => events.extended(grant),
      lost: (grant, why) => this.lose(grant, why),
    };
    this.watchdog = new Watchdog(store, clock, watched, overdue, options.lockDelayMs);
    this.forceChecks = new ForceChecks(store, clock, clock.inTime, {
      ownershipsOf: (key) => this.watchdog.ownerships((each) => each === key),
      lose: (grant, why) => this.lose(grant, why),
    });
  }

  now(): number {
    return this.clock.now();
  }

  /**
   * Ends a grant whose last hold has ended.
   *
   * @returns false if the lock was lost.
   */
  release(grant: Grant): Promise<boolean> {
    grant.end();
    this.forget(grant);
    this.events.released(grant, this.clock);
    const released = grant.ownership.end(grant);
    this.options.onReleasing?.(grant, released);
    return released;
  }

  /**
   * Takes a new lease, which later renewals keep.
   *
   * @throws LockLostError if the lock is lost.
   * @throws LockUnavailableError if the store did not confirm it within `requestTimeoutMs`.
   */
  async extend(grant: Grant, ttlMs: number): Promise<void> {
    this.options.checkTtl(ttlMs);
    grant.ttlMs = ttlMs;
    const reply = await this.clock.inTime(this.watchdog.renew(grant), (): ExtendReply => 'unknown');
    if (grant.loss !== undefined) throw grant.loss;
    if (reply === 'renewed') return;
    const { resource } = grant;
    const message = `The lease of ${resource} could not be extended: the store did not confirm it.`;
    throw new LockUnavailableError(message, { resource });
  }

  /** Ends a grant as lost if its local deadline has passed and the watchdog has not noticed yet. */
  expire(grant: Grant): void {
    const now = this.clock.now();
    if (grant.state === 'held' && now >= grant.deadline) this.lose(grant, this.watchdog.whyOver(grant, now));
  }

  /**
   * Like `expire`, but first reads the replies that have arrived. Returns undefined if there is nothing to wait for,
   * which is the usual case.
   */
  expireUnlessRenewed(grant: Grant): Promise<void> | undefined {
    const now = this.clock.now();
    if (now < grant.deadline) return undefined;
    if (!this.watchdog.mayBeRenewed(grant, now)) return void this.expire(grant);
    // How long the event loop was blocked is known now, but not after its next turn.
    this.watchdog.whyOver(grant, now);
    return repliesRead(this.clock).then(() => this.expire(grant));
  }

  /** Ends a grant as lost. Does nothing if it has already ended. */
  lose(grant: Grant, why: string, cause?: unknown): void {
    runOutside(() => this.endAsLost(grant, why, cause));
  }

  /** Checks the locks of a key, which somebody may have released by force. Loses those that the store no longer has. */
  checkForce(key: string): Promise<void> {
    return this.forceChecks.check(key);
  }

  private endAsLost(grant: Grant, why: string, cause: unknown): void {
    const now = this.clock.now();
    const error = grant.lose(why, now, cause);
    if (error === undefined) return;
    this.forget(grant);
    // The key may still be locked, although no caller holds it. The releaser repeats a release that fails.
    const released = grant.ownership.end(grant, this.closedUntil(grant, now));
    released.catch(() => undefined);
    this.options.onReleasing?.(grant, released);
    this.options.warn(error.message);
    this.events.lost(grant, this.clock);
  }

  /**
   * Returns until when a lost lock stays closed, because its work may still be running. Counts from the loss, or from
   * the deadline if that is earlier.
   */
  private closedUntil({ deadline }: Grant, now: number): number {
    const { lockDelayMs } = this.options;
    return lockDelayMs > 0 ? Math.min(now, deadline) + lockDelayMs : 0;
  }

  private forget(grant: Grant): void {
    this.watchdog.forget(grant);
    this.options.onEnded?.();
  }
}
