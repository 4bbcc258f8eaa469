import { fitted, widthOf } from './printable.js';

/** A column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** Returns the printable text of a cell. */
  readonly text: (row: Row) => string;
  /** Whether the column becomes narrower if the table is too wide. */
  readonly isFlexible?: boolean;
  readonly align?: 'left' | 'right';
}

const GAP = '  ';

/** The least width of a flexible column. */
const LEAST_WIDTH = 8;

/**
 * Returns the lines of a table, the titles first.
 *
 * @param width the columns of the terminal. Undefined: as wide as the texts are.
 */
export function formatTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[], width?: number): string[] {
  const texts = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ text }) => text(row)))];
  const natural = columns.map((_, i) => texts.reduce((most, cells) => Math.max(most, widthOf(cells[i])), 0));
  const widths = width === undefined ? natural : narrowed(natural, columns, width);
  return texts.map((cells) => {
    const line = cells.map((text, i) => padded(fitted(text, widths[i]), widths[i], columns[i].align)).join(GAP);
    const trimmed = line.trimEnd();
    return width === undefined ? trimmed : fitted(trimmed, width);
  });
}

/** Takes what is too much from the widest flexible columns. */
function narrowed<Row>(natural: readonly number[], columns: readonly Column<Row>[], width: number): readonly number[] {
  const widths = [...natural];
  const gaps = GAP.length * (columns.length - 1);
  let excess = widths.reduce((sum, each) => sum + each, gaps) - width;
  for (; excess > 0; excess -= 1) {
    const widest = columns.reduce((found, { isFlexible }, i) => {
      if (isFlexible !== true || widths[i] <= LEAST_WIDTH) return found;
      return found === -1 || widths[i] > widths[found] ? i : found;
    }, -1);
    if (widest === -1) break;
    widths[widest] -= 1;
  }
  return widths;
}

function padded(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'right' ? space + text : text + space;
}
