import type { Findings } from '../../test/support/chaos/history/checker.js';
import type { RunOrder, RunResult } from '../../test/support/chaos/run.js';

/** The findings of all runs of a fault on a store. */
export interface Row {
  readonly order: RunOrder;
  readonly runs: number;
  readonly findings: Findings;
}

/** Returns one row for each fault and store, in the order of the first runs. */
export function merged(results: readonly RunResult[]): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const { order, findings } of results) {
    const name = `${order.fault.name} ${order.store}`;
    const { runs, findings: before } = rows.get(name) ?? { runs: 0, findings };
    rows.set(name, { order, runs: runs + 1, findings: runs === 0 ? findings : bothOf(before, findings) });
  }
  return [...rows.values()];
}

const COUNTS: readonly string[] = ['acquisitions', 'shared'] satisfies (keyof Findings)[];

/** Adds up what was counted, and keeps the longest times. */
function bothOf(one: Findings, other: Findings): Findings {
  const both = Object.keys(one).map((name) => {
    const [value, more] = [one, other].map((each) => each[name as keyof Findings] ?? 0);
    if (typeof value !== 'number') return [name, [...value, ...(more as typeof value)]];
    return [name, COUNTS.includes(name) ? value + Number(more) : Math.max(value, Number(more))];
  });
  return Object.fromEntries(both) as Findings;
}
