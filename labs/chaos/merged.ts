import type { Findings } from '../../test/support/chaos/history/checker.js';
import type { RunResult } from '../../test/support/chaos/run.js';

/** Returns one result for each fault and store, in the order of the first runs. */
export function merged(runs: readonly RunResult[]): readonly RunResult[] {
  const rows = new Map<string, RunResult>();
  for (const result of runs) {
    const { fault, store } = result.order;
    const name = `${fault.name} ${store}`;
    const before = rows.get(name);
    rows.set(name, before === undefined ? result : together(before, result));
  }
  return [...rows.values()];
}

function together(one: RunResult, other: RunResult): RunResult {
  const times = one.order.times + other.order.times;
  const breaches = new Map([...one.breaches, ...other.breaches]);
  return { ...one, order: { ...one.order, times }, findings: bothOf(one.findings, other.findings), breaches };
}

/** Adds up what was counted, and keeps the longest times. */
function bothOf(one: Findings, other: Findings): Findings {
  const longest = (...times: readonly (number | undefined)[]): number | undefined => {
    const known = times.filter((ms) => ms !== undefined);
    return known.length === 0 ? undefined : Math.max(...known);
  };
  return {
    acquisitions: one.acquisitions + other.acquisitions,
    shared: one.shared + other.shared,
    mostAtOnce: Math.max(one.mostAtOnce, other.mostAtOnce),
    overlaps: [...one.overlaps, ...other.overlaps],
    fallenTokens: [...one.fallenTokens, ...other.fallenTokens],
    lostUpdates: [...one.lostUpdates, ...other.lostUpdates],
    lostBehindFence: [...one.lostBehindFence, ...other.lostBehindFence],
    tornReads: [...one.tornReads, ...other.tornReads],
    lostElements: [...one.lostElements, ...other.lostElements],
    longWaits: [...one.longWaits, ...other.longWaits],
    longestWaitMs: Math.max(one.longestWaitMs, other.longestWaitMs),
    waitsAfterFaults: [...one.waitsAfterFaults, ...other.waitsAfterFaults],
    hung: [...one.hung, ...other.hung],
    lostHolds: [...one.lostHolds, ...other.lostHolds],
    trustedAfterForce: [...one.trustedAfterForce, ...other.trustedAfterForce],
    unavailable: [...one.unavailable, ...other.unavailable],
    leftovers: [...one.leftovers, ...other.leftovers],
    recoveryMs: longest(one.recoveryMs, other.recoveryMs),
  };
}
