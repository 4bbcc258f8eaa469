import { markdownTable } from '../support/markdown-table.js';
import type { Campaign, Control } from './campaign.js';
import type { RunResult } from './run.js';
import { WORKLOADS } from './workload/kinds.js';

/** What the results were made with. */
export interface ResultsHead {
  readonly seed: number;
  /** The command that makes them again. */
  readonly command: string;
  readonly versions: string;
  readonly date: string;
}

/** What makes the same runs again: the options that were given, and the seed, given or not. */
export function commandOf(seed: number, options: Readonly<Record<string, string | boolean | undefined>>): string {
  const words = Object.entries(options).flatMap(([name, value]) => {
    if (name === 'seed') return [];
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

/** Of runs in which the lock was shared. */
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

export const CONTROL_COLUMNS = ['fault', 'what happens', 'defence', 'without it'] as const;

/** `test/chaos/RESULTS.md`, of nothing but what was run. */
export function resultsOf({ runs, controls }: Campaign, head: ResultsHead): string {
  const sharing = runs.filter(isSharing);
  const alone = runs.filter((result) => !isSharing(result));
  return `# What breaks, and what does not

Written by \`${head.command}\`; not edited by hand. ${head.date}; seed ${head.seed}; ${head.versions}.

Several processes read, pause and write under one lock while a fault is made as often as _runs_ tells. _Overlaps_: holds that began while
another holder had an unaborted signal and an unexpired local deadline. _Lost updates_: writes over a value that their writer had not read,
because its lock was gone meanwhile; _with fence_: at a resource that refuses older fencing tokens. One such write takes all elements from
the set that were added since it was read. _Time to recover_: from when the fault was over and nobody held the lock to the next grant.
[How it is done](README.md).

${markdownTable(RUN_COLUMNS, alone.map(runRow))}

## Shared locks and permits

On the \`token\` store. _Overlaps_: a writer beside anybody, or somebody beside as many others as there are
permits, each in good faith as above. _Torn readings_: a reader read twice, and a writer had written meanwhile, because the reader's lock was
gone.

${markdownTable(SHARING_COLUMNS, sharing.map(sharingRow))}

## Controls

The same runs, on the \`token\` store, with one defence switched off: each has to break.

${markdownTable(CONTROL_COLUMNS, controls.map(controlRow))}
`;
}

function runRow({ order, findings }: RunResult): readonly string[] {
  const { fault, store, times } = order;
  const { acquisitions, overlaps, lostUpdates, lostBehindFence, lostElements, lostHolds } = findings;
  const counts = [times, acquisitions, overlaps.length, lostUpdates.length].map(whole);
  const fenced = store === 'timestamp' ? 'no tokens' : whole(lostBehindFence.length);
  const { longestWaitMs, recoveryMs = 0 } = findings;
  const rest = [lostElements.length, lostHolds.length, longestWaitMs, recoveryMs].map(whole);
  return [fault.name, store, ...counts, fenced, ...rest];
}

function isSharing({ order }: RunResult): boolean {
  return order.fault.workload !== undefined;
}

function sharingRow({ order, findings }: RunResult): readonly string[] {
  const { fault, times } = order;
  const { workload = 'alone' } = fault;
  const { acquisitions, shared, mostAtOnce, overlaps, lostHolds, longestWaitMs, recoveryMs = 0 } = findings;
  const { tornReads, lostUpdates, lostBehindFence } = findings;
  const counts = [times, shared, acquisitions - shared, mostAtOnce, overlaps.length].map(whole);
  const kept = [tornReads, lostUpdates, lostBehindFence].map(({ length }) => whole(length));
  const rest = [lostHolds.length, longestWaitMs, recoveryMs].map(whole);
  return [fault.name, WORKLOADS[workload].told, ...counts, ...kept, ...rest];
}

function controlRow({ result: { order, breaches } }: Control): readonly string[] {
  const { fault } = order;
  return [fault.name, fault.what, fault.defence, `${fault.breaks}: ${summaryOf(breaches.get(fault.breaks) ?? '')}`];
}

/** The first words tell how often, or how long; the operations' names are of no use later. */
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
