import type { LockEngine } from '../../../lib/core/lock-engine.js';
import type { LinkStore } from './link-store.js';
import type { Machine } from './machine.js';

/** Records of an engine that only its own classes read. */
interface Records {
  readonly releaser: { readonly unanswered: number; readonly late: Sizeable; readonly underWay: Sizeable };
  readonly leases: { readonly forceChecks: { readonly running: Sizeable } };
  readonly lines: { readonly deps: { readonly admission: { readonly lanes: ReadonlyMap<string | undefined, Lane> } } };
}
interface Sizeable {
  readonly size: number;
}
interface Lane {
  readonly inFlight: number;
  readonly length: number;
}

/** Returns what an engine keeps although nobody uses it. */
export function leftoversOf(engine: LockEngine, machine: Machine, store: LinkStore, isClosed: boolean): string[] {
  const { releaser, leases, lines } = engine as unknown as Records;
  const lanes = [...lines.deps.admission.lanes.values()];
  const counts: Readonly<Record<string, number>> = {
    // A closed engine may keep what rested.
    lines: isClosed ? 0 : engine.lines.size,
    'watched grants': engine.watchdog.size,
    buckets: engine.watchdog.bucketCount,
    'releases without a reply': releaser.unanswered,
    'late releases': releaser.late.size,
    'releases under way': releaser.underWay.size,
    'checks of a release by force': leases.forceChecks.running.size,
    'requests in flight': lanes.reduce((sum, { inFlight }) => sum + inFlight, 0),
    'unsent requests': lanes.reduce((sum, { length }) => sum + length, 0),
    timers: machine.timerCount,
    'packets that wait': isClosed ? 0 : store.links.reduce((sum, { size }) => sum + size, 0),
  };
  return Object.entries(counts).flatMap(([what, count]) => (count === 0 ? [] : [`${count} ${what}`]));
}
