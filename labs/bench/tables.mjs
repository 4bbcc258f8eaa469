// The tables of the results.
import { ms, number, significant, table } from './format.mjs';

/** Returns every figure with its target. */
export function targetTable(scenarios) {
  const rows = scenarios.flatMap(({ id, title, targets = [], failed }) => {
    const name = `${id} ${title}`;
    if (failed !== undefined) return [[name, 'failed', '', '', '**no**']];
    return targets.map((figure, i) => [i === 0 ? name : '', ...targetCells(figure)]);
  });
  return table(['scenario', 'figure', 'to reach', 'measured', 'reached'], rows, 2);
}

/** Shows more digits of a missed figure that would look like its limit. */
const beside = (value, limit, met) =>
  met === false && significant(value) === significant(limit) ? value.toPrecision(4) : significant(value);

function targetCells({ name, value, comparison, limit, met, unit = '' }) {
  return [
    name,
    comparison === undefined ? 'stated' : `${comparison} ${significant(limit)}`,
    `${beside(value, limit, met)} ${unit}`.trim(),
    comparison === undefined ? '' : met ? 'yes' : '**no**',
  ];
}

/** Returns a table with one row per entry. */
export function rowTable({ rows, columns, tail }) {
  const isChecked = rows.some(({ exclusion }) => exclusion !== undefined);
  const extra = [
    ...(tail === undefined ? [] : ['p50', 'p99', 'longest'].map((field) => tailColumn(tail, field))),
    ...(isChecked ? [['two inside at once', exclusionCell]] : []),
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

const tailColumn = (what, field) => [
  field === 'p50' ? `p50 of ${what}, ms` : `${field}, ms`,
  (row) => tailCell(row, field),
];

const tailCell = (tail, field) =>
  tail[field] === undefined ? '' : `${field === 'longest' && tail.stuck > 0 ? '> ' : ''}${ms(tail[field])}`;

const exclusionCell = ({ exclusion }) => {
  if (exclusion === undefined) return '';
  const { violations, sections, fallingTokens } = exclusion;
  const tokens = fallingTokens === undefined ? '' : `, ${fallingTokens} tokens fell`;
  return `${violations} of ${sections.toLocaleString('en')}${tokens}`;
};
