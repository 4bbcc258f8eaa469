// The generated parts of docs/performance.md and of the README.
import { number, table } from './format.mjs';
import { isJudged } from './tables.mjs';

const OURS = 'nestjs-redis-lock';
const RAW = 'raw pair';

/** Relative to the page. */
const RESULTS = '../labs/bench/results';

/** Returns what a lock costs: the first table of the page. */
export function costs({ scenarios, machine, date }) {
  const us = ({ figures }) => `${number(figures.us.median, 0)} µs`;
  const perSecond = (what) => (row) => {
    const { median } = row.figures.perSecond;
    return `${number(median, median < 100 ? 1 : 0)} ${what}/s`;
  };
  const handoff = ({ figures }) =>
    `${number(figures.msPerHandoff.median * 1_000, 0)} µs, ${number(figures.commands.median, 1)} requests`;
  const renewal = ({ figures }) =>
    `${number(figures.commands.median, 0)} requests, ${number(figures.cpuMs.median, 0)} ms of CPU`;
  const costed = [
    ['acquire and release a free lock', '1', us],
    ['the same with `using` and `awaitRelease: false`', '1', us, `${OURS}, \`using\`, \`awaitRelease: false\``],
    ['acquire and release, 100 tasks with one key each', '2', perSecond('locks')],
    ['from one caller of a busy key to the next, in 4 processes', '4', handoff],
    ['from a release to the grant in another process', '6', ({ figures }) => `${number(figures.ms.median, 2)} ms`],
    ['wait, 100 callers of a process', '5', perSecond('requests')],
    ['renew 10,000 locks once', '7', renewal],
  ];
  const cell = (id, name, show) => {
    const row = scenarios.find((scenario) => scenario.id === id)?.rows.find((each) => each.name === name);
    return row?.figures === undefined ? '' : show(row);
  };
  const rows = costed.map(([what, id, show, name = OURS]) => {
    return [what, cell(id, name, show), name === OURS ? cell(id, RAW, show) : ''];
  });
  if (rows.some(([, ours]) => ours === '')) throw new Error('The results have no figure of this library for a cost.');
  const { processor, cores, node, redis } = machine;
  return [
    table(['', 'this library', '`SET NX` by hand'], rows),
    `Medians on ${processor}, ${cores} cores, Node ${node}, Redis ${redis} on the same machine, ${date}. By hand: ` +
      "`SET NX`, a script that deletes the key if it has the caller's value, and polling every 5 ms, without a library. " +
      '[Other libraries](#other-libraries) has more of these measurements.',
  ].join('\n\n');
}

/** Returns three figures beside the best peer of each: the table of the README. */
export function headline({ scenarios, machine, date }) {
  const compared = [
    ['from one of 50 callers in a process to the next', '3', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['from one of 40 callers in four processes to the next', '4', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['acquire and release a free lock', '1', ({ us }) => us.median],
  ];
  const rows = compared.map(([what, id, usOf]) => {
    const measured = scenarios.find((scenario) => scenario.id === id).rows.filter((row) => row.figures !== undefined);
    const [peer] = measured
      .filter(({ kind }) => kind === 'peer')
      .toSorted((one, other) => usOf(one.figures) - usOf(other.figures));
    const ours = measured.find(({ name }) => name === OURS);
    return [what, `${number(usOf(ours.figures), 0)} µs`, `${number(usOf(peer.figures), 0)} µs (${peer.name})`];
  });
  const { processor, cores } = machine;
  return [
    table(['', 'this library', 'fastest other library'], rows),
    `Medians of \`npm run bench\` on ${processor}, ${cores} cores, ${date}. More: [Performance](docs/performance.md).`,
  ].join('\n\n');
}

/** Returns the comparison with other libraries. */
export function section({ scenarios }) {
  return [
    libraries(scenarios),
    'Each figure is the median of several rounds. The polling libraries poll every 5 ms here. With their default ' +
      `settings, most pause longer between requests. ${reached(scenarios)} [All results](${RESULTS}/results.md) have the targets, p99, ` +
      'other settings, and the method. Compare figures of one run only.',
    `![The same figures as a bar chart](${RESULTS}/chart.svg)`,
  ].join('\n\n');
}

/** Returns how many targets were reached. */
function reached(scenarios) {
  const judged = scenarios.flatMap(({ targets = [] }) => targets.filter(isJudged));
  return `${judged.filter(({ met }) => met).length} of ${judged.length} performance targets were reached.`;
}

/** Returns a table with a row for each library and a column for each scenario. */
function libraries(scenarios) {
  const of = (id) => scenarios.find((scenario) => scenario.id === id)?.rows ?? [];
  const columns = [
    ['µs per cycle, uncontended', '1', ({ figures }) => number(figures.us.median, 0)],
    ['cycles/s, 100 keys', '2', ({ figures }) => number(figures.perSecond.median, 0)],
    ['ms · commands per handoff, 50 tasks', '3', contended],
    ['ms · commands per handoff, 4 processes × 10', '4', contended],
    ['commands/s, 100 waiters', '5', ({ figures }) => number(figures.perSecond.median, 0)],
    ['release → grant, ms', '6', ({ figures }) => number(figures.ms.median, 2)],
  ];
  const strict = of('4b').filter(({ kind }) => kind === 'ours');
  const names = [...of('1'), ...strict]
    .filter(({ name, variantOf }) => variantOf === undefined && !name.includes('`using`'))
    .map(({ name }) => name);
  const rowIn = (id, name) => [...of(id), ...(id === '4' ? strict : [])].find((row) => row.name === name);
  const cell = (row, show) => (row?.figures === undefined ? '' : show(row));
  const rows = names.map((name) => [name, ...columns.map(([, id, show]) => cell(rowIn(id, name), show))]);
  return table(['', ...columns.map(([title]) => title)], rows);
}

function contended({ figures }) {
  return `${number(figures.msPerHandoff.median, 3)} · ${number(figures.commands.median, 2)}`;
}
