// The generated parts of docs/performance.md and of the README.
import { machineLine, ms, number, table } from './format.mjs';
import { isJudged, targetTable, versionTable } from './tables.mjs';

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
    ['the same by `using` with `awaitRelease: false`', '1', us, `${OURS}, \`using\`, \`awaitRelease: false\``],
    ['acquire and release, 100 tasks with a key each', '2', perSecond('locks')],
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
    `Medians on ${processor}, ${cores} cores, Node ${node}, Redis ${redis} on the same machine, ${date}. By hand is ` +
      'what an application without a library sends: `SET NX`, a script that deletes its own value, and polling every 5 ms. ' +
      '[Beside other libraries](#beside-other-libraries) has more of these measurements.',
  ].join('\n\n');
}

/** Returns three figures beside the best peer of each: the table of the README. */
export function headline({ scenarios, machine, date }) {
  const compared = [
    ['from one of 50 callers of a process to the next', '3', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['from one of 40 callers of four processes to the next', '4', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['acquire and release a lock that nobody else wants', '1', ({ us }) => us.median],
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
    `Medians of \`npm run bench\` on ${processor}, ${cores} cores, ${date}. [Performance](docs/performance.md) has all ` +
      'scenarios.',
  ].join('\n\n');
}

/** Returns the comparison with other libraries. */
export function section({ scenarios, versions, ...rest }) {
  return [
    'Figures of different runs or machines are not comparable. Compare figures of one run only.',
    measuredOn(rest),
    `![The same figures as a bar chart](${RESULTS}/chart.svg)`,
    libraries(scenarios),
    'Each figure is the median of several rounds. The polling libraries poll every 5 ms here. With their default ' +
      `settings they wait longer. [All results](${RESULTS}/results.md) have p99, longest waits, overtakes, exclusion ` +
      'checks and the method.',
    ...reached(scenarios),
    ...parallel(scenarios),
    ...sharing(scenarios),
    ...manyReaders(scenarios),
    ...subscribers(scenarios),
    ...clients(scenarios),
    ...onVersions(versions),
  ].join('\n\n');
}

/** The machine, wrapped by the formatter as a list. */
function measuredOn(rest) {
  const items = machineLine(rest).replace(/\.$/, '').split('; ');
  return ['Measured on:', '', ...items.map((item) => `- ${item}`)].join('\n');
}

/** Returns each figure beside its target. */
function reached(scenarios) {
  const judged = scenarios.flatMap(({ targets = [] }) => targets.filter(isJudged));
  const count = judged.filter(({ met }) => met).length;
  const text =
    count === judged.length
      ? `All ${count} performance targets of this library were reached.`
      : `${count} of ${judged.length} performance targets of this library were reached.`;
  return ['### Figures to reach', text, targetTable(scenarios.filter(hasTargets), { judgedAlone: true })];
}

const hasTargets = ({ targets = [], absent }) => absent !== undefined || targets.some(isJudged);

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
  const names = [...of('1'), ...strict].filter(({ variantOf }) => variantOf === undefined).map(({ name }) => name);
  const rowIn = (id, name) => [...of(id), ...(id === '4' ? strict : [])].find((row) => row.name === name);
  const cell = (row, show) => (row?.figures === undefined ? '' : show(row));
  const rows = names.map((name) => [name, ...columns.map(([, id, show]) => cell(rowIn(id, name), show))]);
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
      [title, ...columns.map(([name]) => name)],
      measured.map((row) => [row.name, ...columns.map(([, show]) => show(row))]),
    );
  });
  const note =
    'redis-semaphore polls for permits and has no shared locks. Readers exclude one another with its mutex, with the ' +
    'raw pair and with our exclusive mode.';
  return ['### Shared locks and permits', note, ...tables];
}

const PARALLEL = [
  ['cycles/s', 'perSecond', 0],
  ['µs of CPU a cycle', 'cpuUs', 1],
  ["µs of the server's CPU a cycle", 'serverUs', 1],
];

function parallel(scenarios) {
  const tables = ['2', '2b', '2c'].flatMap((id) => figureTable(scenarios, id, PARALLEL));
  const note =
    'Each task cycles on its own key. The clients have automatic pipelining, except where another setting is named. ' +
    'CPU is user and system time of the process, or of the server.';
  return tables.length < 2 ? [] : ['### Many keys at once', note, ...tables];
}

function manyReaders(scenarios) {
  const columns = [
    ['s until all are served', 'seconds', 2],
    ['served', 'served', 0],
    ['commands per reader', 'commands', 3],
  ];
  const more = [['longest script, ms', 'longest', 2], ...columns];
  const tables = [...figureTable(scenarios, '12', columns), ...figureTable(scenarios, '12b', more)];
  return tables.length === 0 ? [] : ['### Many readers at once', ...tables];
}

function subscribers(scenarios) {
  const tables = figureTable(scenarios, '14', [['µs of CPU per lock', 'us', 1]]);
  const note =
    'Locks of the store `memory()`, so that the figures are those of this library alone. Subscribers of traces, ' +
    'metrics and spans cost as much more with any store.';
  return tables.length === 0 ? [] : ['### What subscribers cost', note, ...tables];
}

/** Returns the tables of both client libraries. */
function clients(scenarios) {
  if (!scenarios.some(({ id }) => id === '15')) return [];
  const tables = [
    ...figureTable(scenarios, '15', [['µs per cycle', 'us', 0]]),
    ...figureTable(scenarios, '15b', PARALLEL),
    ...figureTable(scenarios, '6', [['ms', 'ms', 2]], ({ kind }) => kind === 'ours'),
  ];
  const note =
    'node-redis writes the commands of one tick of the event loop together, when the tick has ended. ioredis writes a ' +
    'command at once. With node-redis, a caller gets a handed-off lock when its renewal is written.';
  return ['### node-redis', note, ...tables];
}

function onVersions(versions = []) {
  if (versions.length === 0) return [];
  const note =
    'Short runs with few libraries, each on its own server. They vary more than the figures above. A figure in bold ' +
    'misses its target.';
  return ['### Versions of Node and of the server', note, versionTable(versions)];
}

/** Returns a table of one scenario, with the rows that `isShown` selects. Empty if it was not measured in this form. */
function figureTable(scenarios, id, columns, isShown = () => true) {
  const found = scenarios.find((scenario) => scenario.id === id);
  const rows = found?.rows?.filter((row) => row.figures?.[columns[0][1]] !== undefined && isShown(row)) ?? [];
  if (rows.length === 0) return [];
  const cells = ({ figures }) => columns.map(([, figure, digits]) => number(figures[figure]?.median ?? 0, digits));
  const head = [found.title, ...columns.map(([title]) => title)];
  return [
    table(
      head,
      rows.map((row) => [row.name, ...cells(row)]),
    ),
  ];
}

function contended({ figures }) {
  // Results of older runs spell the figure msPerHandOff.
  const perHandoff = figures.msPerHandoff ?? figures.msPerHandOff;
  return `${number(perHandoff.median, 3)} · ${number(figures.commands.median, 2)} commands`;
}
