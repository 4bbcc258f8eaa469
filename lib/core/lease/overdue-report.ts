import { describeCall } from '../call.js';
import type { LockEvents } from '../diagnostics.js';
import { secondsOf } from '../store/incident-log.js';
import type { Grant } from './grant.js';

/** How many locks are logged one by one. What makes a thousand calls hang at once is one cause. */
const MOST_LINES = 10;

interface Log {
  warn(message: string): void;
  info?(message: string): void;
}

/** Logs and publishes that locks are held for longer than `warnHeldMs`, and logs when they are released. */
export class OverdueReport {
  /** Those that were logged. */
  private readonly logged = new Set<Grant>();

  constructor(
    private readonly log: Log,
    private readonly events: Pick<LockEvents, 'overdue'>,
  ) {}

  begin(grants: readonly Grant[], now: number): void {
    const first = grants.slice(0, MOST_LINES);
    for (const grant of first) {
      this.logged.add(grant);
      const { warnHeldMs } = grant.options;
      const held = `${nameOf(grant)} has been held for ${secondsOf(now - grant.grantedAt)}`;
      this.log.warn(`${held}, and is still renewed: its work may hang (warnHeldMs: ${String(warnHeldMs)}).`);
    }
    const more = grants.length - first.length;
    if (more > 0) this.log.warn(`${more} more locks have been held for longer than their warnHeldMs.`);
    for (const grant of grants) this.events.overdue(grant, now);
  }

  /** Called when a lock that was reported is released. */
  end(grant: Grant, now: number): void {
    if (!this.logged.delete(grant)) return;
    this.log.info?.(`${nameOf(grant)} was released after ${secondsOf(now - grant.grantedAt)}.`);
  }

  /** Called when a lock that was reported is lost, which is logged elsewhere. */
  forget(grant: Grant): void {
    this.logged.delete(grant);
  }
}

function nameOf(grant: Grant): string {
  const { resource, method = 'a call of LockService', label } = describeCall(grant, grant.options);
  return `The lock on ${resource} by ${method}${label === undefined ? '' : ` (${label})`}`;
}
