import { runOutside } from '../context/async-context.js';
import { describeCall } from '../events/call.js';
import type { LockEvents } from '../events/diagnostics.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import { secondsOf } from '../store/incident-log.js';
import type { Clock } from '../time/clock.js';
import { describePlace, type HandleHold } from './leaked-handles.js';

/** How many leaked handles are logged per minute. */
const MOST_LINES = 10;
const MINUTE_MS = 60_000;

interface LeakDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly events: Pick<LockEvents, 'leaked'>;
  readonly leases: Pick<LeaseManager, 'release'>;
  warn(message: string): void;
}

/** Logs and publishes handles that were collected without a release, and releases their locks. */
export class LeakReport {
  private lines = 0;
  private since = -Infinity;

  constructor(private readonly deps: LeakDeps) {}

  onLeaked(hold: HandleHold): void {
    const { clock, events, leases } = this.deps;
    const { grant, place } = hold;
    const now = clock.now();
    runOutside(() => {
      const isLast = grant.part(hold);
      this.log(hold, now, isLast);
      events.leaked(grant, place, now);
      if (isLast) leases.release(grant).catch(() => undefined);
    });
  }

  private log({ grant, place }: HandleHold, now: number, isReleased: boolean): void {
    if (now - this.since >= MINUTE_MS) {
      this.since = now;
      this.lines = 0;
    }
    this.lines += 1;
    if (this.lines > MOST_LINES) return;
    const { resource, label } = describeCall(grant, grant.options);
    const what = `The handle of the lock on ${resource}${label === undefined ? '' : ` (${label})`}`;
    const how = 'was collected by the garbage collector without release()';
    const end = isReleased ? 'the lock is released now' : 'another hold keeps the lock';
    const held = `${what} ${how}, and ${end}, after ${secondsOf(now - grant.grantedAt)}: ${describePlace(place)}.`;
    const last = this.lines === MOST_LINES ? ' No more are logged in this minute.' : '';
    this.deps.warn(`${held} Release it in a finally block or with await using, or call using() instead.${last}`);
  }
}
