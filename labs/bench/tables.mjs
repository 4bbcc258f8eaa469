// The tables of the results.
import { ms, number, significant, table } from './format.mjs';

/** Returns every figure with its target. */
export function targetTable(scenarios) {
  const rows = scenarios.flatMap(({ id, title, targets = [], failed, absent }) => {
    const name = `${id} ${title}`;
    if (failed !== undefined) return [[name, 'failed', '', '', '**no**']];
    if (absent !== undefined) return [[name, absent, '', '', '**no**']];
    return targets.map((figure, i) => [i === 0 ? name : '', ...targetCells(figure)]);
  });
  return table(['scenario', 'figure', 'to reach', 'measured', 'reached'], rows, 2);
}

export const isJudged = ({ comparison }) => comparison !== undefined;

/** Shows more digits of a missed figure that would look like its limit. */
const beside = (value, limit, met) =>
  met === false && significant(value) === significant(limit) ? value.toPrecision(4) : significant(value);

function targetCells({ name, value, comparison, limit, met, unit = '', unmeasured }) {
  return [
    name,
    comparison === undefined ? 'stated' : `${comparison} ${significant(limit)}`,
    unmeasured === undefined ? `${beside(value, limit, met)} ${unit}`.trim() : `not measured: ${unmeasured}`,
    comparison === undefined ? '' : met ? 'yes' : '**no**',
  ];
}

/** Returns the figures that have a target, with a column for each pair of versions. */
export function versionTable(versions) {
  const plain = (name) => name.replace(/ \(.*\)$/, '');
  const keyOf = ({ id, name }) => `${id} ${plain(name)}`;
  const all = versions.flatMap(({ figures }) => figures);
  const figures = new Map(all.map((figure) => [keyOf(figure), figure]));
  const cell = (found) => {
    if (found?.value === undefined) return found?.unmeasured ?? '';
    return found.met ? significant(found.value) : `**${significant(found.value)}**`;
  };
  const rows = Array.from(figures, ([key, { comparison, limit }]) => [
    key,
    comparison === undefined ? '' : `${comparison} ${limit}`,
    ...versions.map((pair) => pair.reason ?? cell(pair.figures.find((figure) => keyOf(figure) === key))),
  ]);
  return table(['figure', 'to reach', ...versions.map(({ node, server }) => `${node}, ${server}`)], rows);
}

/** Returns a table with one row per entry. */
export function rowTable({ rows, columns, tail, tails = {}, excluded = 'two inside at once' }) {
  const has = (field) => rows.some((row) => row[field] !== undefined);
  const extra = [
    ...(tail === undefined ? [] : ['p50', 'p99', 'longest'].map((field) => tailColumn(tail, field))),
    ...Object.entries(tails).flatMap(([of, what]) =>
      ['p50', 'p99', 'longest'].map((field) => tailColumn(what, field, ({ waits }) => waits?.[of])),
    ),
    ...(has('exclusion') ? [[excluded, exclusionCell]] : []),
    ...(has('order') ? orderColumns : []),
    ...(has('overtakes') ? overtakeColumns : []),
  ];
  const head = ['', ...columns.map((column) => column.title), ...extra.map(([title]) => title)];
  const cells = (row) => [
    ...columns.map(({ figure, digits }) => numberOf(row.figures[figure], digits)),
    ...extra.map(([, cell]) => cell(row)),
  ];
  const body = rows.map((row) =>
    row.figures === undefined
      ? [row.name, row.failed ?? 'not measured', ...head.slice(2).map(() => '')]
      : [row.name, ...cells(row)],
  );
  return table(head, body);
}

const numberOf = (figure, digits) => (figure === undefined ? '' : number(figure.median, digits));

const tailColumn = (what, field, tailOf = (row) => row) => [
  field === 'p50' ? `p50 of ${what}, ms` : `${field}, ms`,
  (row) => tailCell(tailOf(row) ?? {}, field),
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
