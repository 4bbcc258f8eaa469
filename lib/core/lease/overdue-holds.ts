import { nameOfCall } from '../events/call.js';
import { secondsOf } from '../format-value.js';
import type { Grant } from './grant.js';

/** Finds the locks that are renewed for longer than their `warnHeldMs`, and reports each of them once. */
export class OverdueHolds {
  /** No grant is overdue before this time. */
  private nextAt = Infinity;

  constructor(private readonly report: (grant: Grant, now: number) => void) {}

  /** Adds a grant that is watched from now on. */
  add(grant: Grant): void {
    this.nextAt = Math.min(this.nextAt, overdueAt(grant));
  }

  /** Returns whether it is time to look. Called at each tick of the watchdog. */
  isDue(now: number): boolean {
    return now >= this.nextAt;
  }

  /** Looks at all watched grants. */
  look(grants: readonly Grant[], now: number): void {
    this.nextAt = Infinity;
    for (const grant of grants) {
      // A listener to an earlier report may have released it.
      if (grant.isOverdue || grant.state !== 'held') continue;
      this.add(grant);
      if (now < overdueAt(grant)) continue;
      grant.isOverdue = true;
      this.report(grant, now);
    }
  }
}

/** Returns the log line about a lock that is overdue. */
export function describeOverdue(grant: Grant, now: number): string {
  const { method = 'a call of LockService', label, mode } = grant.options;
  const name = nameOfCall(grant.resource, { method, label, mode });
  const held = `The lock on ${name} has been held for ${secondsOf(now - grant.grantedAt)}`;
  return `${held}, and is still renewed: its work may hang (warnHeldMs: ${String(grant.options.warnHeldMs)}).`;
}

function overdueAt({ grantedAt, options: { warnHeldMs = false } }: Grant): number {
  return warnHeldMs === false ? Infinity : grantedAt + warnHeldMs;
}
