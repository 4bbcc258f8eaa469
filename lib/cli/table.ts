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

/** Without a terminal, a string longer than this widens its own row only. */
const LONGEST_ALIGNED = 40;

/**
 * Returns the lines of a table, the titles first.
 *
 * @param width the columns of the terminal. Undefined: no text is shortened, and a long one makes its line longer.
 */
export function formatTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[], width?: number): string[] {
  const texts = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ text }) => text(row)))];
  const limit = width === undefined ? LONGEST_ALIGNED : Infinity;
  const natural = columns.map((_, i) =>
    longestOf(texts.map((cells) => widthOf(cells[i])).filter((each) => each <= limit)),
  );
  if (width === undefined) return texts.map((cells) => lineOf(cells, columns, natural));
  const widths = narrowed(natural, columns, width);
  return texts.map((cells) => {
    const shown = cells.map((text, i) => fitted(text, widths[i]));
    return fitted(lineOf(shown, columns, widths), width);
  });
}

function longestOf(widths: readonly number[]): number {
  return widths.reduce((most, each) => Math.max(most, each), 0);
}

function lineOf<Row>(cells: readonly string[], columns: readonly Column<Row>[], widths: readonly number[]): string {
  const line = cells.map((text, i) => padded(text, widths[i], columns[i].align)).join(GAP);
  return line.trimEnd();
}

/** Takes the excess width from the widest flexible columns. */
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
