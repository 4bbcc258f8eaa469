import type { Findings } from './checker.js';

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

/** Returns all breaches: of the promises under every fault, and of those under this one. */
export function breachesOf(findings: Findings, promises: Promises): ReadonlyMap<Breach, string> {
  const { waitMs, freeMs = Infinity, overlapMs = 0, noticeMs = 0, keepsUpdates = false } = promises;
  const { longestFreeMs, recoveryMs } = findings;
  const torn = findings.tornReads.filter(({ trusted }) => keepsUpdates || (trusted && overlapMs === 0));
  const all: readonly [Breach, rule: string, breaches: readonly unknown[]][] = [
    ['overlap', `longer than ${overlapMs} ms: `, findings.overlaps.filter(({ ms }) => ms > overlapMs)],
    ['token', 'did not rise: ', findings.fallenTokens.filter(({ excused }) => !excused)],
    ['update lost', '', keepsUpdates ? findings.lostUpdates : []],
    ['fenced update lost', '', findings.lostBehindFence.filter(({ excused }) => !excused)],
    ['torn read', '', torn],
    ['wait', `longer than ${waitMs} ms: `, findings.longWaits],
    ['wait', `for a free lock, longer than ${freeMs} ms: `, longestFreeMs > freeMs ? [longestFreeMs] : []],
    ['hold lost', '', promises.losesHolds ? [] : findings.lostHolds],
    ['late notice', `later than ${noticeMs} ms: `, findings.trustedAfterForce.filter(({ ms }) => ms > noticeMs)],
    ['refusal', '', promises.refuses ? [] : findings.unavailable],
    ['leftover', '', findings.leftovers],
    ['no progress', 'nobody got the lock again: ', recoveryMs === Infinity ? [recoveryMs] : []],
    ['no progress', 'hung: ', findings.hung],
  ];
  const broken = all.filter(([, , breaches]) => breaches.length > 0);
  return new Map(broken.map(([breach, rule, breaches]) => [breach, `${rule}${listed(breaches)}`]));
}

const LISTED = 3;

function listed(found: readonly unknown[]): string {
  const first = found.slice(0, LISTED).map((one) => JSON.stringify(one));
  return `${found.length} × ${first.join(', ')}${found.length > LISTED ? ', …' : ''}`;
}
