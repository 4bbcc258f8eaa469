import type { Grant } from './grant.js';

/** Finds the grants that are renewed for longer than their `warnHeldMs`. Called by the ticks of the watchdog. */
export class OverdueHolds {
  /** No grant is overdue before this time. */
  private nextAt = Infinity;

  /** @param onOverdue called with the grants that have become overdue since the last look, at least one. */
  constructor(private readonly onOverdue: (grants: readonly Grant[], now: number) => void) {}

  /** Adds a grant that is watched from now on. */
  add(grant: Grant): void {
    const at = overdueAt(grant);
    if (at < this.nextAt) this.nextAt = at;
  }

  /** Returns whether it is time to look. */
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
    if (overdue.length > 0) this.onOverdue(overdue, now);
  }
}

function overdueAt({ grantedAt, options: { warnHeldMs = false, renew } }: Grant): number {
  // Without renewals, the lock ends by itself.
  return warnHeldMs === false || !renew ? Infinity : grantedAt + warnHeldMs;
}
