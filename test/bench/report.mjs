// The results as files: JSON (all of it), Markdown and a chart, made from the JSON alone.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chart } from './chart.mjs';
import { allEntries } from './entries/index.mjs';
import { machineLine, ms, number, pretty, significant, table } from './format.mjs';

/** @returns {Promise<string[]>} the files written */
export async function writeResults(folder, results) {
  const described = {
    ...results,
    entries: allEntries.map(({ name, kind, waiting, defaults }) => ({ name, kind, waiting, defaults })),
  };
  const files = {
    'results.json': JSON.stringify(described),
    'results.md': markdown(described),
    'chart.svg': chart(described),
  };
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    writeFileSync(file, name.endsWith('.svg') ? text : await pretty(text, file));
  }
  return Object.keys(files).map((name) => join(folder, name));
}

export function markdown(results) {
  return [
    '# Benchmark results',
    ...(results.quick ? ['**A quick run: to see that it works, not to quote.**'] : []),
    machineLine(results),
    '## Figures to reach',
    targetTable(results.scenarios),
    ...results.scenarios.map(scenarioSection),
    '## How it was measured',
    ...notes(results),
  ].join('\n\n');
}

/** Every figure of every scenario beside what it should reach. */
export function targetTable(scenarios) {
  const rows = scenarios.flatMap(({ id, title, targets, failed }) =>
    failed !== undefined
      ? [[`${id} ${title}`, 'failed', '', '', '**no**']]
      : targets.map(({ name, value, comparison, limit, met, unit = '' }, i) => [
          i === 0 ? `${id} ${title}` : '',
          name,
          comparison === undefined ? 'stated' : `${comparison} ${significant(limit)}`,
          `${significant(value)} ${unit}`.trim(),
          comparison === undefined ? '' : met ? 'yes' : '**no**',
        ]),
  );
  return table(['scenario', 'figure', 'to reach', 'measured', 'reached'], rows, 2);
}

function scenarioSection({ id, title, method, failed, ...shown }) {
  if (failed !== undefined) return `## ${id} ${title}\n\nFailed: ${failed}`;
  return [`## ${id} ${title}`, method, rowTable(shown), ...stuckNote(shown.rows)].join('\n\n');
}

/** One row an entry. */
export function rowTable({ rows, columns, tail, tails = {}, excluded = 'two inside at once' }) {
  const has = (field) => rows.some((row) => row[field] !== undefined);
  const extra = [
    ...(tail === undefined ? [] : ['p50', 'p99', 'longest'].map((field) => tailColumn(tail, field))),
    ...Object.entries(tails).flatMap(([of, what]) =>
      ['p50', 'p99', 'longest'].map((field) => tailColumn(what, field, ({ waits }) => waits[of])),
    ),
    ...(has('exclusion') ? [[excluded, exclusionCell]] : []),
    ...(has('order') ? orderColumns : []),
    ...(has('overtakes') ? overtakeColumns : []),
  ];
  const head = ['', ...columns.map((column) => column.title), ...extra.map(([title]) => title)];
  const cells = (row) => [
    ...columns.map(({ figure, digits }) => number(row.figures[figure].median, digits)),
    ...extra.map(([, cell]) => cell(row)),
  ];
  const body = rows.map((row) =>
    row.figures === undefined
      ? [row.name, row.failed ?? 'not measured', ...head.slice(2).map(() => '')]
      : [row.name, ...cells(row)],
  );
  return table(head, body);
}

const tailColumn = (what, field, tailOf = (row) => row) => [
  field === 'p50' ? `p50 of ${what}, ms` : `${field}, ms`,
  (row) => tailCell(tailOf(row), field),
];

const tailCell = (tail, field) =>
  tail[field] === undefined ? '' : `${field === 'longest' && tail.stuck > 0 ? '> ' : ''}${ms(tail[field])}`;

const exclusionCell = ({ exclusion }) => {
  if (exclusion === undefined) return '';
  const { violations, sections, fallingTokens } = exclusion;
  const tokens = fallingTokens === undefined ? '' : `, ${fallingTokens} tokens fell`;
  return `${violations} of ${sections.toLocaleString('en')}${tokens}`;
};

const meanAndMost = ({ mean, most }) => `${number(mean, 1)} · ${most.toLocaleString('en')}`;

const ordered = (field) => (row) => (row.order === undefined ? 'no queue' : meanAndMost(row.order[field]));
const orderColumns = [
  ["overtakes of a process by the server's order, mean · most", ordered('overtaken')],
  ['acquisitions of other processes before it, mean · most', ordered('before')],
  ['between two of its own, mean · most', ordered('between')],
];

const overtaken = (field) => (row) => (row.overtakes === undefined ? '' : meanAndMost(row.overtakes[field]));
const overtakeColumns = [
  ["overtakes of a process by the clients' clocks, mean · most", overtaken('process')],
  ["of a task by the clients' clocks, mean · most", overtaken('task')],
];

function stuckNote(rows) {
  const stuck = rows.filter((row) => row.stuck > 0);
  if (stuck.length === 0) return [];
  const list = stuck.map(({ name, stuck: count }) => `${name} ${count}`).join(', ');
  return [
    `Waits that still had not ended some seconds after their round, when nobody else wanted the lock any more: ${list}. They count with what they had lasted by then.`,
  ];
}

function notes({ entries }) {
  const ways = entries.map(({ name, waiting, defaults }) => [name, waiting, defaults ?? 'the same']);
  return [
    'All entries of a scenario run in the same processes on one server, in turns; the order is rotated from round to round, short turns are divided and mixed within one, and a ' +
      'first round is dropped. A figure is the median of its rounds; a quotient is the median of the quotients of the rounds; p50, p99 ' +
      'and the longest are over every single one of all rounds. Everyone uses one copy of ioredis and a lease of 30 s. Commands are those ' +
      'that clients send, counted in the client, one by one also where they are pipelined.',
    'A hand-off is from one acquisition to the next, whoever gets it. With nothing to do inside, a library without a queue mostly gives ' +
      'the lock straight back to the task that just released it, which is quick, while the others wait: see that column, p99 and the longest.',
    'Whoever polls for a permit mostly takes the one that its own process has just given back, which is quick, while others poll in vain: see p50 ' +
      'beside p99 and the longest. A permit that is handed to the first in the queue is idle until the process of that one has been told and ' +
      'scheduled, which is slow with more processes than cores. Who shares a lock with us asks for itself: there is no passing on among those of one process.',
    "Overtakes by the server's order are exact. MONITOR shows who joins the queue and who is granted the lock, in the order in which the " +
      'server does it: a process waits from when it joins until it is granted the lock, and is overtaken by each grant meanwhile to one ' +
      'that joined later, or not at all. The acquisitions of other processes before it are counted by their fencing tokens, from the first ' +
      'of whoever held the lock when it joined, also if they were over by then: an upper bound. Between two acquisitions of one process there can be more than that: it always wants ' +
      'the lock here, but between its release and the arrival of its next ask the server does not know that it does.',
    "Overtakes by the clients' clocks are all that can be told of libraries without a queue. A process waits for a grant from the end of " +
      'its last one, or from when its first task began to wait if none was waiting then; it is overtaken by each grant to a task of ' +
      'another process that began to wait for it later. A task is overtaken by each grant, while it waits, to a task, wherever, that ' +
      'began to wait later. The first wait of each is left out. They count more than the order of the server: a process counts as waiting ' +
      'from when it looks at its clock, but the server knows of it only when its request arrives, which is late if the process is not ' +
      'scheduled before, or is still to read the answer to its last request; with more processes than cores that is common.',
    'Those that poll were all given the same short pause and unlimited patience. At their defaults they wait longer, and some give up:',
    table(['', 'waits by, here', 'at its defaults'], ways, 3),
  ];
}
