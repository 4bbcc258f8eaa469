import type { Findings } from './checker.js';

/** A way in which a run breaks a promise. */
export type Breach =
  | 'overlap'
  | 'token'
  | 'update lost'
  | 'fenced update lost'
  | 'torn read'
  | 'wait'
  | 'hold lost'
  | 'late notice'
  | 'refusal'
  | 'leftover'
  | 'no progress';

/** The promises under a fault. An omitted promise is kept in full. */
export interface Promises {
  /** The longest wait for the lock, or for a refusal. */
  readonly waitMs: number;
  /** The longest part of a wait in which nobody trusts the lock, and no fault is going on. Default: `waitMs` in all. */
  readonly freeMs?: number | undefined;
  /** How long exclusion may be violated at a time, because the server has lost the lock. Default: 0. */
  readonly overlapMs?: number;
  /** No update is lost without a fence either, and no read is torn. */
  readonly keepsUpdates?: true;
  /** The fault may end holds. */
  readonly losesHolds?: true;
  /** How long a holder may trust a lock that was released by force. Default: 0. */
  readonly noticeMs?: number;
  /** Requests may fail, because the fault keeps the servers from replying, or because a process shuts down. */
  readonly refuses?: true;
}

/** Returns all breaches: of the promises under every fault, and of those under this one. */
export function breachesOf(findings: Findings, promises: Promises): ReadonlyMap<Breach, string> {
  const breaches = new Map<Breach, string>();
  const note = (breach: Breach, broken: boolean, what: () => string): void => {
    if (broken) breaches.set(breach, what());
  };
  const { overlapMs = 0, freeMs = Infinity } = promises;
  const overlaps = findings.overlaps.filter(({ ms }) => ms > overlapMs);
  const fallen = findings.fallenTokens.filter(({ excused }) => !excused);
  note('overlap', overlaps.length > 0, () => `${listed(overlaps)}, where ${overlapMs} ms are allowed`);
  note('token', fallen.length > 0, () => `tokens did not rise: ${listed(fallen)}`);
  const { keepsUpdates = false } = promises;
  note('update lost', keepsUpdates && findings.lostUpdates.length > 0, () => listed(findings.lostUpdates));
  const lost = findings.lostBehindFence.filter(({ excused }) => !excused);
  note('fenced update lost', lost.length > 0, () => listed(lost));
  const torn = findings.tornReads.filter(({ trusted }) => keepsUpdates || (trusted && overlapMs === 0));
  note('torn read', torn.length > 0, () => listed(torn));
  note('wait', findings.longWaits.length > 0, () => `longer than ${promises.waitMs} ms: ${listed(findings.longWaits)}`);
  const free = Math.round(findings.longestFreeMs);
  note('wait', free > freeMs, () => `for a free lock for ${free} ms, where ${freeMs} ms are allowed`);
  note('hold lost', !promises.losesHolds && findings.lostHolds.length > 0, () => listed(findings.lostHolds));
  const { noticeMs = 0 } = promises;
  const unaware = findings.trustedAfterForce.filter(({ ms }) => ms > noticeMs);
  note('late notice', unaware.length > 0, () => `trusted for longer than ${noticeMs} ms: ${listed(unaware)}`);
  note('refusal', !promises.refuses && findings.unavailable.length > 0, () => listed(findings.unavailable));
  note('leftover', findings.leftovers.length > 0, () => listed(findings.leftovers));
  const stuck = findings.hung.length > 0 || findings.recoveryMs === Infinity;
  note('no progress', stuck, () =>
    findings.hung.length > 0 ? `hung: ${listed(findings.hung)}` : 'no caller got the lock again',
  );
  return breaches;
}

const LISTED = 3;

function listed(found: readonly unknown[]): string {
  const first = found.slice(0, LISTED).map((one) => JSON.stringify(one));
  return `${found.length} × ${first.join(', ')}${found.length > LISTED ? ', …' : ''}`;
}
