import type { AblationName } from '../../../test/support/chaos/ablations.js';
import { FENCED, UNFENCED } from '../../../test/support/chaos/history/lines.js';
import type { Breach } from '../../../test/support/chaos/history/promises.js';
import { nameOf, promisesOf, type RunResult } from '../../../test/support/chaos/run.js';
import { markdownTable } from '../../../test/support/markdown-table.js';
import type { Verdict } from './porcupine.js';

/** A run, and what Porcupine says about its history. */
export interface Row extends RunResult {
  readonly verdicts: readonly Verdict[];
  /** Whether the harness took a lock away from its holder. */
  readonly taken: boolean;
}

/** The models that a history is judged by. */
const COLUMNS = ['lock', 'tokens', FENCED, UNFENCED] as const;
type Column = (typeof COLUMNS)[number];

/** Why no model finds a breach of this kind. */
const TAKEN = 'no: the harness took the lock away, and in the model the grant ends there';
const UNSEEN: { readonly [Kind in Breach]?: string } = {
  wait: 'no: callers wait for too long, and no model judges time',
  'hold lost': 'no: a hold ends early and its holder notices, and a grant may end by its loss',
  'late notice': TAKEN,
};

/** Why no model finds what breaks without a defence. */
const UNSEEN_WITHOUT: { readonly [Name in AblationName]?: string } = {
  'tokens of tickets': 'no: in the model a resumed hold is part of its grant, which has one token',
};

function saying({ verdicts }: Row, column: Column): string {
  const said = verdicts.filter(({ model, key }) => (model === 'register' ? key : model) === column);
  if (said.length === 0) return '–';
  if (said.some(({ verdict }) => verdict === 'Illegal')) return 'rejected';
  return said.some(({ verdict }) => verdict === 'Unknown') ? 'unknown' : 'accepted';
}

/** Returns what must be accepted. Without a fence, a late write may overwrite another. */
function promised({ order }: Row): readonly Column[] {
  const { keepsUpdates = false } = promisesOf(order.fault, order.store);
  return COLUMNS.filter((column) => column !== UNFENCED || keepsUpdates);
}

/** Returns what must be accepted and is not. */
function rejectedOf(row: Row): readonly Column[] {
  return promised(row).filter((column) => !['accepted', '–'].includes(saying(row, column)));
}

/** Returns why a run without a defence is accepted. Undefined if nothing explains it. */
function reasonOf({ order, taken }: Row): string | undefined {
  const { without, breaks } = order.fault.control;
  return UNSEEN[breaks] ?? UNSEEN_WITHOUT[without] ?? (taken ? TAKEN : undefined);
}

/** Returns what is wrong with the verdicts. */
export function complaintsOf(rows: readonly Row[]): readonly string[] {
  return rows.flatMap((row) => {
    const rejected = rejectedOf(row);
    if (!row.order.control) return rejected.map((column) => `${nameOf(row.order)}: ${column} is not accepted`);
    return rejected.length === 0 && reasonOf(row) === undefined ? [`${nameOf(row.order)}: not caught`] : [];
  });
}

/** Returns the text of `labs/chaos/judge/RESULTS.md`. */
export function resultsOf(rows: readonly Row[], head: string): string {
  const runs = rows.filter(({ order }) => !order.control);
  const controls = rows.filter(({ order }) => order.control);
  const sound = runs.filter((row) => rejectedOf(row).length === 0).length;
  const caught = controls.filter((row) => rejectedOf(row).length > 0).length;
  const operations = rows.reduce((total, row) => total + sumOf(row, 'operations'), 0).toLocaleString('en');
  const slowest = Math.max(0, ...rows.flatMap(({ verdicts }) => verdicts.map(({ ms }) => ms)));
  return `# Verdicts of Porcupine

${head}

Porcupine accepts ${sound} of ${runs.length} runs with all defences. It rejects ${caught} of ${controls.length} runs
without a defence. All have ${operations} operations together. The slowest verdict took
${(slowest / 1_000).toFixed(1)} s. [README.md](README.md) describes the models.

## Runs with all defences

_Register_ has no fence: a paused holder may overwrite what others wrote. It is **bold** where the chaos runs promise
that it is correct all the same.

${markdownTable(['fault', 'operations', ...COLUMNS], runs.map(runRow))}

## Runs without a defence

_Breaks_ is the promise that the checker of the chaos runs found broken.

${markdownTable(['fault', 'without', 'breaks', ...COLUMNS, 'rejected'], controls.map(controlRow))}
`;
}

function runRow(row: Row): readonly string[] {
  const [judged, all] = (['operations', 'of'] as const).map((part) => sumOf(row, part).toLocaleString('en'));
  return [row.order.fault.name, judged === all ? all : `${judged} of ${all}`, ...cells(row)];
}

function controlRow(row: Row): readonly string[] {
  const { name, control } = row.order.fault;
  const by = rejectedOf(row).join(', ');
  return [name, control.without, control.breaks, ...cells(row), by === '' ? (reasonOf(row) ?? 'no') : `by ${by}`];
}

/** Counts the operations of all keys, or those that were judged. */
function sumOf({ verdicts }: Row, part: 'operations' | 'of'): number {
  return verdicts.filter(({ model }) => model !== 'tokens').reduce((total, one) => total + one[part], 0);
}

function cells(row: Row): readonly string[] {
  const kept = promised(row).includes(UNFENCED);
  return COLUMNS.map((column) => {
    const said = saying(row, column);
    return column === UNFENCED && kept && said !== '–' ? `**${said}**` : said;
  });
}
