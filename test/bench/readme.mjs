// Puts the performance section into the README, made from the results alone: node test/bench/readme.mjs [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { machineLine, ms, number, pretty, table } from './format.mjs';

const START = '<!-- bench:start -->';
const END = '<!-- bench:end -->';
const README = resolve(import.meta.dirname, '../../README.md');
const RESULTS = 'test/bench/results';

const results = resultsIn('results');
const text = readFileSync(README, 'utf8');
const [start, end] = [text.indexOf(START), text.indexOf(END)];
if (start === -1 || end < start) throw new Error(`README.md has no ${START} … ${END}.`);
const made = await pretty(`${text.slice(0, start)}${START}\n\n${section(results)}\n\n${text.slice(end)}`, README);

if (!process.argv.includes('--check')) {
  writeFileSync(README, made);
} else if (made !== text) {
  console.error('README.md: the performance section is not that of the results; node test/bench/readme.mjs writes it.');
  process.exitCode = 1;
}

function resultsIn(folder) {
  const found = JSON.parse(readFileSync(join(import.meta.dirname, folder, 'results.json'), 'utf8'));
  if (found.quick) throw new Error('The results are those of a quick run: npm run bench.');
  const failed = found.scenarios.filter((scenario) => scenario.failed !== undefined);
  if (failed.length > 0)
    throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);
  return found;
}

function section({ scenarios, ...rest }) {
  return [
    `Measured by \`npm run bench\` on: ${machineLine(rest)} Figures of different runs or machines are not comparable: what counts ` +
      'are quotients within one run.',
    `![The same as bars](${RESULTS}/chart.svg)`,
    comparison(scenarios),
    'Medians of rounds; the polling libraries poll every 5 ms here, and at their defaults wait longer. p99, longest waits, overtakes, ' +
      `exclusion checks and how all of it was measured: [results](${RESULTS}/results.md).`,
    reached(scenarios),
    ...(scenarios.some(({ id }) => id === '10') ? sharing(scenarios) : sharingAlone()),
  ].join('\n\n');
}

/** What this library set out to reach, and where it did not. */
function reached(scenarios) {
  const judged = scenarios.flatMap(({ id, targets }) =>
    targets.filter(({ met }) => met !== undefined).map((target) => ({ id, ...target })),
  );
  const missed = judged.filter(({ met }) => !met);
  const tell = (target) =>
    `${target.id} ${target.name} ${number(target.value, 2)} (${target.comparison} ${target.limit})`;
  if (missed.length === 0)
    return `All of the ${judged.length} figures that this library set out to reach were reached.`;
  return (
    `Of ${judged.length} figures that this library set out to reach, ${judged.length - missed.length} were reached. Missed: ` +
    `${missed.map(tell).join('; ')}.`
  );
}

/** One row an entry, one column a scenario. */
function comparison(scenarios) {
  const of = (id) => scenarios.find((scenario) => scenario.id === id)?.rows ?? [];
  const columns = [
    ['µs a cycle, uncontended', '1', ({ figures }) => number(figures.us.median, 0)],
    ['cycles/s, 100 keys', '2', ({ figures }) => number(figures.perSecond.median, 0)],
    ['ms a handoff, 50 tasks', '3', contended],
    ['ms a handoff, 4 processes × 10', '4', contended],
    ['longest wait there, ms', '4', ({ longest, stuck }) => `${stuck > 0 ? '> ' : ''}${ms(longest)}`],
    ['commands/s of 100 waiters', '5', ({ figures }) => number(figures.perSecond.median, 0)],
    ['release → grant, ms', '6', ({ figures }) => number(figures.ms.median, 2)],
  ];
  const strict = of('4b').filter(({ kind }) => kind === 'ours');
  const names = [...of('1'), ...strict].map(({ name }) => name);
  const rowIn = (id, name) => [...of(id), ...(id === '4' ? strict : [])].find((row) => row.name === name);
  const cell = (row, show) => (row?.figures === undefined ? '' : show(row));
  const rows = names.map((name) => [name, ...columns.map(([, id, show]) => cell(rowIn(id, name), show))]);
  return table(['', ...columns.map(([title]) => title)], rows);
}

/** What readers, and those with permits, get out of sharing a lock. */
function sharing(scenarios) {
  const perSecond = ['locks/s', ({ figures }) => number(figures.perSecond.median, 0)];
  const commands = ['commands a lock', ({ figures }) => number(figures.commands.median, 2)];
  const p99 = (of, who) => [`p99 of ${who} wait, ms`, ({ waits }) => ms(waits[of].p99)];
  const columnsOf = {
    10: [perSecond, p99('readers', "a reader's"), p99('writers', "a writer's"), commands],
    11: [perSecond, ['permits in use', ({ figures }) => number(figures.inside.median, 1)], p99('all', 'a'), commands],
  };
  const shown = scenarios.filter(({ id }) => id in columnsOf);
  if (shown.length === 0) return [];
  const tables = shown.map(({ id, title, rows }) => {
    const columns = columnsOf[id];
    const measured = rows.filter(({ figures }) => figures !== undefined);
    return table(
      [title, ...columns.map(([name]) => name)],
      measured.map((row) => [row.name, ...columns.map(([, show]) => show(row))]),
    );
  });
  const told =
    'Readers who share a lock, and permits, beside redis-semaphore, which polls for permits and has no lock that readers share: with its mutex, as with ' +
    'the raw pair and with our exclusive mode, readers exclude one another.';
  return [told, ...tables];
}

/** Of a run of these scenarios alone: `npm run bench -- --only 10,11 --out test/bench/results/sharing`. */
function sharingAlone() {
  const folder = 'results/sharing';
  if (!existsSync(join(import.meta.dirname, folder))) return [];
  const { scenarios, ...rest } = resultsIn(folder);
  const link = `[All of it](${RESULTS}/sharing/results.md)`;
  return [...sharing(scenarios), `Measured in a run of its own, on: ${machineLine(rest)} ${link}, with every wait.`];
}

function contended({ figures }) {
  return `${number(figures.msPerHandoff.median, 3)} · ${number(figures.commands.median, 2)} commands`;
}
