import { promisesOf, type RunResult } from '../../test/support/chaos/run.js';
import { shares, WORKLOADS } from '../../test/support/chaos/workload/kinds.js';
import { markdownTable } from '../../test/support/markdown-table.js';

/** The figures of a run. Those in ms, and the most at once, are the highest of all runs. All others are added up. */
const FIGURES = {
  runs: () => 1,
  acquisitions: ({ findings }) => findings.acquisitions,
  'acquisitions, shared': ({ findings }) => findings.shared,
  'acquisitions, alone': ({ findings }) => findings.acquisitions - findings.shared,
  'most at once': ({ findings }) => findings.mostAtOnce,
  overlaps: ({ findings }) => findings.overlaps.length,
  'torn readings': ({ findings }) => findings.tornReads.length,
  'lost updates without fence': ({ findings }) => findings.lostUpdates.length,
  'lost updates with fence': ({ findings }) => findings.lostBehindFence.length,
  'elements lost from the set': ({ findings }) => findings.lostElements.length,
  'holds lost': ({ findings }) => findings.lostHolds.length,
  'lease, ms': ({ order }) => order.fault.terms.ttlMs,
  'longest wait, ms': ({ findings }) => findings.longestWaitMs,
  'longest time to recover, ms': ({ findings }) => findings.recoveryMs ?? 0,
  'free meanwhile, ms': ({ findings }) => findings.longestFreeMs,
  'promised, ms': ({ order }) => promisesOf(order.fault, order.store).freeMs ?? 0,
} satisfies Record<string, (result: RunResult) => number>;
const HIGHEST = /, ms$|^most/;

type Figure = keyof typeof FIGURES;

const SHARED: readonly Figure[] = ['acquisitions, shared', 'acquisitions, alone', 'most at once'];
const LOST: readonly Figure[] = ['lost updates without fence', 'lost updates with fence'];
const LASTED: readonly Figure[] = ['longest wait, ms', 'longest time to recover, ms'];

const FOR_RUNS: readonly Figure[] = ['runs', 'acquisitions', 'overlaps', ...LOST];
const RUN_FIGURES: readonly Figure[] = [...FOR_RUNS, 'elements lost from the set', 'holds lost', ...LASTED];
const SHARING_FIGURES: readonly Figure[] = [
  'runs',
  ...SHARED,
  'overlaps',
  'torn readings',
  ...LOST,
  'holds lost',
  ...LASTED,
];
const WAIT_FIGURES: readonly Figure[] = ['lease, ms', 'longest wait, ms', 'free meanwhile, ms', 'promised, ms'];

export const RUN_COLUMNS = ['fault', 'store', ...RUN_FIGURES];
/** For runs with a shared lock. */
export const SHARING_COLUMNS = ['fault', 'lock', ...SHARING_FIGURES];
/** For runs that promise how long a lock may stay free while callers wait. */
export const WAIT_COLUMNS = ['fault', ...WAIT_FIGURES];
export const CONTROL_COLUMNS = ['fault', 'what happens', 'ablation', 'without it'];

/** Returns the text of `labs/chaos/RESULTS.md`. */
export function resultsOf(results: readonly RunResult[], command: string, versions: string): string {
  const runs = results.filter(({ order }) => !order.control);
  const controls = results.filter(({ order }) => order.control);
  // All runs of a fault on a store, in the order of the first.
  const rowOf = ({ order }: RunResult): string => `${order.fault.name}, ${order.store}`;
  const rows = [...new Set(runs.map(rowOf))].map((row) => runs.filter((run) => rowOf(run) === row));
  const isSharing = ([{ order }]: readonly RunResult[]): boolean => shares(order.fault.workload ?? 'alone');
  const limited = rows.filter(([{ order }]) => promisesOf(order.fault, order.store).freeMs !== undefined);
  return `# Chaos results

Written by \`${command}\`, not edited by hand. ${new Date().toISOString().slice(0, 10)}, ${versions}.

Several processes read, pause and write under one lock. Each run injects the fault once.

- _Overlaps_: holds that began while another holder had an unaborted signal and an unexpired local deadline.
- _Lost updates_: writes over a value that their writer had not read, because its lock was gone meanwhile. _With fence_:
  at a resource that refuses older fencing tokens. Tokens of Redisson restart after a loss of data, so that two
  holders may have the same one. A lost update also removes all elements that were added to the set
  since it was read.
- _Time to recover_: from the end of the fault, or of a hold that outlived it, to the next grant.

[README.md](README.md) describes the runs.

${markdownTable(RUN_COLUMNS, rows.filter((row) => !isSharing(row)).map(runRow))}

## Shared locks and permits

On the \`token\` store. _Overlaps_: holds of a writer and of another caller at the same time, or more holds
than permits, counted as above. _Torn readings_: a writer wrote between the two reads of a reader, because the reader's
lock was gone.

${markdownTable(SHARING_COLUMNS, rows.filter(isSharing).map(sharingRow))}

## Waits

Deployments, failovers, slots that move, and others on the \`token\` store. _Free meanwhile_: the longest part of a wait
in which nobody trusted the lock, and the fault was over. A run with a longer one than _promised_ fails.

${markdownTable(WAIT_COLUMNS, limited.map(waitRow))}

## Controls

The same faults on the \`token\` store, with one defence switched off. Each control must break a promise.

${markdownTable(CONTROL_COLUMNS, controls.map(controlRow))}
`;
}

function figuresOf(runs: readonly RunResult[], figures: readonly Figure[]): readonly string[] {
  return figures.map((name) => {
    if (name === 'lost updates with fence' && runs[0].order.store === 'timestamp') return 'no tokens';
    const values = runs.map(FIGURES[name]);
    const figure = HIGHEST.test(name) ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0);
    return Number.isFinite(figure) ? Math.round(figure).toLocaleString('en') : 'never';
  });
}

function runRow(runs: readonly RunResult[]): readonly string[] {
  const { fault, store } = runs[0].order;
  return [fault.name, store, ...figuresOf(runs, RUN_FIGURES)];
}

function sharingRow(runs: readonly RunResult[]): readonly string[] {
  const { name, workload = 'alone' } = runs[0].order.fault;
  return [name, WORKLOADS[workload].label, ...figuresOf(runs, SHARING_FIGURES)];
}

function waitRow(runs: readonly RunResult[]): readonly string[] {
  return [runs[0].order.fault.name, ...figuresOf(runs, WAIT_FIGURES)];
}

function controlRow({ order, breaches }: RunResult): readonly string[] {
  const { name, what, control } = order.fault;
  // Without the names of the operations.
  const breach = (breaches.get(control.breaks) ?? '').replace(/ × .*/s, ' times');
  return [name, what, control.without, `${control.breaks}: ${breach}`];
}
