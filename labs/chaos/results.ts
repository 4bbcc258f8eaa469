import { markdownTable } from '../../test/support/markdown-table.js';
import { promisesOf } from '../../test/support/chaos/run.js';
import type { Campaign, Control } from '../../test/support/chaos/campaign.js';
import { merged, type Row } from './merged.js';
import { shares, WORKLOADS } from '../../test/support/chaos/workload/kinds.js';

/** The heading of the results. */
export interface ResultsHead {
  readonly seed: number;
  /** The command that repeats the runs. */
  readonly command: string;
  readonly versions: string;
  readonly date: string;
}

/** Returns the command that repeats the runs: the given options and the seed. */
export function commandOf(seed: number, options: Readonly<Record<string, string | boolean | undefined>>): string {
  const words = Object.entries(options).flatMap(([name, value]) => {
    // Where histories are kept changes no run.
    if (name === 'seed' || name === 'histories') return [];
    if (typeof value === 'string')
      return [`--${name}`, /^[\w.]+$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`];
    return value === true ? [`--${name}`] : [];
  });
  return ['npm run chaos -- --seed', seed, ...words].join(' ');
}

export const RUN_COLUMNS = [
  'fault',
  'store',
  'runs',
  'acquisitions',
  'overlaps',
  'lost updates without fence',
  'lost updates with fence',
  'elements lost from the set',
  'holds lost',
  'longest wait, ms',
  'longest time to recover, ms',
] as const;

/** For runs with a shared lock. */
export const SHARING_COLUMNS = [
  'fault',
  'lock',
  'runs',
  'acquisitions, shared',
  'acquisitions, alone',
  'most at once',
  'overlaps',
  'torn readings',
  'lost updates without fence',
  'lost updates with fence',
  'holds lost',
  'longest wait, ms',
  'longest time to recover, ms',
] as const;

/** For runs that promise how long a lock may stay free while callers wait. */
export const WAIT_COLUMNS = ['fault', 'lease, ms', 'longest wait, ms', 'free meanwhile, ms', 'promised, ms'] as const;

export const CONTROL_COLUMNS = ['fault', 'what happens', 'ablation', 'without it'] as const;

/** Returns the text of `labs/chaos/RESULTS.md`. */
export function resultsOf({ runs: all, controls }: Campaign, head: ResultsHead): string {
  const rows = merged(all);
  return `# Chaos results

Written by \`${head.command}\`, not edited by hand. ${head.date}, seed ${head.seed}, ${head.versions}.

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

${markdownTable(WAIT_COLUMNS, rows.flatMap(waitRow))}

${controls.length === 0 ? 'No control was run: no defence was switched off.' : controlSection(controls)}
`;
}

function controlSection(controls: readonly Control[]): string {
  return `## Controls

The same faults on the \`token\` store, with one defence switched off. Each control must break a promise.

${markdownTable(CONTROL_COLUMNS, controls.map(controlRow))}`;
}

function runRow({ order, runs, findings }: Row): readonly string[] {
  const { fault, store } = order;
  const { acquisitions, overlaps, lostUpdates, lostBehindFence, lostElements, lostHolds } = findings;
  const counts = [runs, acquisitions, overlaps.length, lostUpdates.length].map(whole);
  const fenced = store === 'timestamp' ? 'no tokens' : whole(lostBehindFence.length);
  const { longestWaitMs, recoveryMs = 0 } = findings;
  const rest = [lostElements.length, lostHolds.length, longestWaitMs, recoveryMs].map(whole);
  return [fault.name, store, ...counts, fenced, ...rest];
}

function isSharing({ order }: Row): boolean {
  return shares(order.fault.workload ?? 'alone');
}

function sharingRow({ order, runs, findings }: Row): readonly string[] {
  const { name, workload = 'alone' } = order.fault;
  const { acquisitions, shared, mostAtOnce, overlaps, lostHolds, longestWaitMs, recoveryMs = 0 } = findings;
  const { tornReads, lostUpdates, lostBehindFence } = findings;
  const counts = [runs, shared, acquisitions - shared, mostAtOnce, overlaps.length].map(whole);
  const kept = [tornReads, lostUpdates, lostBehindFence].map(({ length }) => whole(length));
  const rest = [lostHolds.length, longestWaitMs, recoveryMs].map(whole);
  return [name, WORKLOADS[workload].label, ...counts, ...kept, ...rest];
}

function waitRow({ order, findings }: Row): readonly (readonly string[])[] {
  const { name, terms } = order.fault;
  const { freeMs } = promisesOf(order.fault, order.store);
  const { longestWaitMs, longestFreeMs } = findings;
  return freeMs === undefined ? [] : [[name, ...[terms.ttlMs, longestWaitMs, longestFreeMs, freeMs].map(whole)]];
}

function controlRow({ result: { order, breaches } }: Control): readonly string[] {
  const { fault } = order;
  return [fault.name, fault.what, fault.ablation, `${fault.breaks}: ${summaryOf(breaches.get(fault.breaks) ?? '')}`];
}

/** Keeps the first words of a breach: how often, or how long. Drops the names of the operations. */
function summaryOf(what: string): string {
  return what
    .replace(/: (\d+) × .*/s, ', $1 times')
    .replace(
      /^(\d+) × .*?(, where .*)?$/s,
      (_, times: string, where: string | undefined) => `${times} times${where ?? ''}`,
    );
}

function whole(count: number): string {
  return Number.isFinite(count) ? Math.round(count).toLocaleString('en') : 'never';
}
