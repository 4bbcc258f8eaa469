// Writes the figures of docs/performance.md from the results: node test/bench/readme.mjs [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { machineLine, ms, number, table } from './format.mjs';

const START = '<!-- bench:start -->';
const END = '<!-- bench:end -->';
const PAGE = resolve(import.meta.dirname, '../../docs/performance.md');
/** Relative to the page. */
const RESULTS = '../test/bench/results';

const results = resultsIn('results');
const text = readFileSync(PAGE, 'utf8');
const [start, end] = [text.indexOf(START), text.indexOf(END)];
if (start === -1 || end < start) throw new Error(`docs/performance.md has no ${START} … ${END}.`);
const page = `${text.slice(0, start)}${START}\n\n${section(results)}\n\n${text.slice(end)}`;
const made = await format(page, { ...(await resolveConfig(PAGE)), filepath: PAGE, proseWrap: 'always' });

if (!process.argv.includes('--check')) {
  writeFileSync(PAGE, made);
} else if (made !== text) {
  console.error('docs/performance.md differs from the results. Run node test/bench/readme.mjs to write it.');
  process.exitCode = 1;
}

function resultsIn(folder) {
  const found = JSON.parse(readFileSync(join(import.meta.dirname, folder, 'results.json'), 'utf8'));
  if (found.quick) throw new Error('The results come from a quick run. Run npm run bench.');
  const failed = found.scenarios.filter((scenario) => scenario.failed !== undefined);
  if (failed.length > 0)
    throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);
  return found;
}

function section({ scenarios, ...rest }) {
  return [
    'Figures of different runs or machines are not comparable. Compare figures of one run only.',
    measuredOn(rest),
    `![The same figures as a bar chart](${RESULTS}/chart.svg)`,
    libraries(scenarios),
    'Each figure is the median of several rounds. The polling libraries poll every 5 ms here. With their default ' +
      `settings they wait longer. [All results](${RESULTS}/results.md) have p99, longest waits, overtakes, exclusion ` +
      'checks and the method.',
    reached(scenarios),
    ...(scenarios.some(({ id }) => id === '10') ? sharing(scenarios) : sharingAlone()),
  ].join('\n\n');
}

/** The machine, wrapped by the formatter as a list. */
function measuredOn(rest) {
  const items = machineLine(rest).replace(/\.$/, '').split('; ');
  return ['Measured on:', '', ...items.map((item) => `- ${item}`)].join('\n');
}

/** Replaces words of older results that the documentation does not use any more. */
function renamed(name) {
  return name.replace('maxLocalPasses: 0', 'fairness: strict').replaceAll('hand-off', 'handoff');
}

/** Returns which targets were missed. */
function reached(scenarios) {
  const judged = scenarios.flatMap(({ id, targets }) =>
    targets.filter(({ met }) => met !== undefined).map((target) => ({ id, ...target })),
  );
  const missed = judged.filter(({ met }) => !met);
  const item = ({ id, name, value, comparison, limit }) =>
    `- scenario ${id}, ${renamed(name)}: ${number(value, 2)} (target ${comparison} ${limit})`;
  if (missed.length === 0) return `All ${judged.length} performance targets of this library were reached.`;
  return [
    `${judged.length - missed.length} of ${judged.length} performance targets of this library were reached. Missed:`,
    '',
    ...missed.map(item),
  ].join('\n');
}

/** Returns a table with a row for each library and a column for each scenario. */
function libraries(scenarios) {
  const of = (id) => scenarios.find((scenario) => scenario.id === id)?.rows ?? [];
  const columns = [
    ['µs per cycle, uncontended', '1', ({ figures }) => number(figures.us.median, 0)],
    ['cycles/s, 100 keys', '2', ({ figures }) => number(figures.perSecond.median, 0)],
    ['ms per handoff, 50 tasks', '3', contended],
    ['ms per handoff, 4 processes × 10', '4', contended],
    ['longest wait, ms', '4', ({ longest, stuck }) => `${stuck > 0 ? '> ' : ''}${ms(longest)}`],
    ['commands/s, 100 waiters', '5', ({ figures }) => number(figures.perSecond.median, 0)],
    ['release → grant, ms', '6', ({ figures }) => number(figures.ms.median, 2)],
  ];
  const strict = of('4b').filter(({ kind }) => kind === 'ours');
  const names = [...of('1'), ...strict].map(({ name }) => name);
  const rowIn = (id, name) => [...of(id), ...(id === '4' ? strict : [])].find((row) => row.name === name);
  const cell = (row, show) => (row?.figures === undefined ? '' : show(row));
  const rows = names.map((name) => [renamed(name), ...columns.map(([, id, show]) => cell(rowIn(id, name), show))]);
  return table(['', ...columns.map(([title]) => title)], rows);
}

/** Returns the tables of shared locks and permits. */
function sharing(scenarios) {
  const perSecond = ['locks/s', ({ figures }) => number(figures.perSecond.median, 0)];
  const commands = ['commands per lock', ({ figures }) => number(figures.commands.median, 2)];
  const p99 = (of, wait) => [`p99 of ${wait}, ms`, ({ waits }) => ms(waits[of].p99)];
  const columnsOf = {
    10: [perSecond, p99('readers', 'read waits'), p99('writers', 'write waits'), commands],
    11: [
      perSecond,
      ['permits in use', ({ figures }) => number(figures.inside.median, 1)],
      p99('all', 'waits'),
      commands,
    ],
  };
  const shown = scenarios.filter(({ id }) => id in columnsOf);
  if (shown.length === 0) return [];
  const tables = shown.map(({ id, title, rows }) => {
    const columns = columnsOf[id];
    const measured = rows.filter(({ figures }) => figures !== undefined);
    return table(
      [renamed(title), ...columns.map(([name]) => name)],
      measured.map((row) => [renamed(row.name), ...columns.map(([, show]) => show(row))]),
    );
  });
  const note =
    'redis-semaphore polls for permits and has no shared locks. Readers exclude one another with its mutex, with the ' +
    'raw pair and with our exclusive mode.';
  return ['### Shared locks and permits', note, ...tables];
}

// The run: npm run bench -- --only 10,11 --out test/bench/results/sharing
/** Returns the tables of a run of these scenarios alone. */
function sharingAlone() {
  const folder = 'results/sharing';
  if (!existsSync(join(import.meta.dirname, folder))) return [];
  const { scenarios, ...rest } = resultsIn(folder);
  const link = `[All results](${RESULTS}/sharing/results.md) of this run have every wait.`;
  return [...sharing(scenarios), 'This was a separate run.', measuredOn(rest), link];
}

function contended({ figures }) {
  // Results of older runs spell the figure msPerHandOff.
  const perHandoff = figures.msPerHandoff ?? figures.msPerHandOff;
  return `${number(perHandoff.median, 3)} · ${number(figures.commands.median, 2)} commands`;
}
