import { runOutside } from '../context/async-context.js';
import { describeCall } from '../events/call.js';
import type { LockEvents } from '../events/diagnostics.js';
import { secondsOf } from '../store/incident-log.js';
import type { Clock, Timer } from '../time/clock.js';
import type { Grant } from './grant.js';

/** How many locks a line names. A thousand calls that hang together have one cause. */
const MOST_NAMES = 3;

/** How long a line waits for other locks. Calls that hang together have acquired their locks one after the other. */
const COLLECT_MS = 1_000;

/** The shortest time between two lines. */
const PAUSE_MS = 60_000;

interface Log {
  warn(message: string): void;
  info?(message: string): void;
}

/**
 * Finds the locks that are renewed for longer than their `warnHeldMs`. Publishes each of them, logs them together, and
 * logs when they are released.
 */
export class OverdueHolds {
  /** No grant is overdue before this time. */
  private nextAt = Infinity;
  /** Grants that no line has counted yet. */
  private readonly unlogged = new Set<Grant>();
  /** Grants that a line has named. */
  private readonly named = new Set<Grant>();
  private timer: Timer | undefined;
  private loggedAt = -Infinity;

  constructor(
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly events: Pick<LockEvents, 'overdue'>,
  ) {}

  /** Adds a grant that is watched from now on. */
  add(grant: Grant): void {
    const at = overdueAt(grant);
    if (at < this.nextAt) this.nextAt = at;
  }

  /** Returns whether it is time to look. Called at each tick of the watchdog. */
  isDue(now: number): boolean {
    return now >= this.nextAt;
  }

  /** Looks at all watched grants. Each is reported once. */
  look(grants: readonly Grant[], now: number): void {
    const overdue: Grant[] = [];
    this.nextAt = Infinity;
    for (const grant of grants) {
      if (grant.isOverdue) continue;
      const at = overdueAt(grant);
      if (now < at) this.nextAt = Math.min(this.nextAt, at);
      else {
        grant.isOverdue = true;
        overdue.push(grant);
      }
    }
    if (overdue.length > 0) this.report(overdue, now);
  }

  /** Called when a lock that was reported is released. */
  end(grant: Grant, now: number): void {
    const wasNamed = this.named.has(grant);
    this.forget(grant);
    if (wasNamed) this.log.info?.(`The lock on ${nameOf(grant)} was released after ${heldFor(grant, now)}.`);
  }

  /** Called when a lock that was reported is lost, which is logged elsewhere. */
  forget(grant: Grant): void {
    this.named.delete(grant);
    if (!this.unlogged.delete(grant) || this.unlogged.size > 0) return;
    this.timer?.cancel();
    this.timer = undefined;
  }

  private report(grants: readonly Grant[], now: number): void {
    for (const grant of grants) this.unlogged.add(grant);
    const delayMs = Math.max(COLLECT_MS, this.loggedAt + PAUSE_MS - now);
    this.timer ??= runOutside(() => this.clock.schedule(delayMs, () => this.logAll(), true));
    // Last, because a listener may release any of them.
    for (const grant of grants) this.events.overdue(grant, now);
  }

  private logAll(): void {
    const grants = [...this.unlogged].toSorted((a, b) => a.grantedAt - b.grantedAt);
    const now = this.clock.now();
    this.unlogged.clear();
    this.timer = undefined;
    this.loggedAt = now;
    const first = grants.slice(0, MOST_NAMES);
    for (const grant of first) this.named.add(grant);
    this.log.warn(grants.length === 1 ? lineOf(grants[0], now) : lineOfMany(first, grants.length, now));
  }
}

function overdueAt({ grantedAt, options: { warnHeldMs = false, renew } }: Grant): number {
  // Without renewals, the lock ends by itself.
  return warnHeldMs === false || !renew ? Infinity : grantedAt + warnHeldMs;
}

function lineOf(grant: Grant, now: number): string {
  const held = `The lock on ${nameOf(grant)} has been held for ${heldFor(grant, now)}`;
  return `${held}, and is still renewed: its work may hang (warnHeldMs: ${String(grant.options.warnHeldMs)}).`;
}

function lineOfMany(first: readonly Grant[], count: number, now: number): string {
  const names = first.map((grant) => `${nameOf(grant)} for ${heldFor(grant, now)}`).join(', ');
  const more = count > first.length ? `, and ${count - first.length} more` : '';
  return `${count} locks are still renewed after their warnHeldMs, so their work may hang: ${names}${more}.`;
}

function heldFor({ grantedAt }: Grant, now: number): string {
  return secondsOf(now - grantedAt);
}

function nameOf(grant: Grant): string {
  const { resource, method = 'a call of LockService', label } = describeCall(grant, grant.options);
  return `${resource} by ${method}${label === undefined ? '' : ` (${label})`}`;
}
