import type { Findings } from './checker.js';

/** What may go wrong in a run. */
export type Breach =
  | 'overlap'
  | 'token'
  | 'update lost'
  | 'fenced update lost'
  | 'torn read'
  | 'wait'
  | 'hold lost'
  | 'refusal'
  | 'leftover'
  | 'no progress';

/** What is promised under a fault; what is left out is promised in full. */
export interface Promises {
  /** Nobody waits longer for the lock, or for being refused. */
  readonly waitMs: number;
  /** The lock itself may be violated, for at most that long at a time: its server has forgotten it. */
  readonly overlapMs?: number;
  /** No update is lost without a fence either, and no reading is torn: the lock alone keeps what it protects. */
  readonly keepsUpdates?: true;
  /** Holds may be lost: the fault takes them away. */
  readonly losesHolds?: true;
  /** Asking may fail: the fault keeps the servers from answering. */
  readonly refuses?: true;
}

/** All that was broken of what is promised whatever happens, and of what is promised under this fault. */
export function breachesOf(findings: Findings, promises: Promises): ReadonlyMap<Breach, string> {
  const breaches = new Map<Breach, string>();
  const note = (breach: Breach, broken: boolean, what: () => string): void => {
    if (broken) breaches.set(breach, what());
  };
  const { overlapMs = 0 } = promises;
  const overlaps = findings.overlaps.filter(({ ms }) => ms > overlapMs);
  const fallen = findings.fallenTokens.filter(({ excused }) => !excused);
  note('overlap', overlaps.length > 0, () => `${listed(overlaps)}, where ${overlapMs} ms are allowed`);
  note('token', fallen.length > 0, () => `tokens did not rise: ${listed(fallen)}`);
  const { keepsUpdates = false } = promises;
  note('update lost', keepsUpdates && findings.lostUpdates.length > 0, () => listed(findings.lostUpdates));
  note('fenced update lost', findings.lostBehindFence.length > 0, () => listed(findings.lostBehindFence));
  const torn = findings.tornReads.filter(({ believed }) => keepsUpdates || (believed && overlapMs === 0));
  note('torn read', torn.length > 0, () => listed(torn));
  note('wait', findings.longWaits.length > 0, () => `longer than ${promises.waitMs} ms: ${listed(findings.longWaits)}`);
  note('hold lost', !promises.losesHolds && findings.lostHolds.length > 0, () => listed(findings.lostHolds));
  note('refusal', !promises.refuses && findings.unavailable.length > 0, () => listed(findings.unavailable));
  note('leftover', findings.leftovers.length > 0, () => listed(findings.leftovers));
  const stuck = findings.hung.length > 0 || findings.recoveryMs === Infinity;
  note('no progress', stuck, () =>
    findings.hung.length > 0 ? `hung: ${listed(findings.hung)}` : 'nobody got in again',
  );
  return breaches;
}

const LISTED = 3;

function listed(found: readonly unknown[]): string {
  const first = found.slice(0, LISTED).map((one) => JSON.stringify(one));
  return `${found.length} × ${first.join(', ')}${found.length > LISTED ? ', …' : ''}`;
}
