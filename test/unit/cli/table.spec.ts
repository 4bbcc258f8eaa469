import { describe, expect, it } from '@jest/globals';
import { widthOf } from '../../../lib/cli/printable.js';
import { type Column, formatTable } from '../../../lib/cli/table.js';

interface Row {
  readonly name: string;
  readonly count: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'NAME', text: ({ name }) => name, isFlexible: true },
  { title: 'COUNT', text: ({ count }) => String(count), align: 'right' },
];
const ROWS = [
  { name: 'goods:300', count: 5 },
  { name: '商品', count: 1_200 },
];

describe('formatTable()', () => {
  it('aligns columns by the width of their characters', () => {
    expect(formatTable(ROWS, COLUMNS)).toEqual(['NAME       COUNT', 'goods:300      5', '商品        1200']);
  });

  it('has titles if there are no rows', () => {
    expect(formatTable([], COLUMNS)).toEqual(['NAME  COUNT']);
  });

  it('shortens flexible columns until the table fits', () => {
    const rows = [{ name: 'a-very-long-name-of-a-resource', count: 12 }];
    expect(formatTable(rows, COLUMNS, 24)).toEqual(['NAME               COUNT', 'a-very-long-name…     12']);
  });

  it.each([1, 5, 10, 14])('has no line that is wider than %i columns', (width) => {
    const lines = formatTable([...ROWS, { name: 'x'.repeat(200), count: 1 }], COLUMNS, width);
    expect(lines.filter((line) => widthOf(line) > width)).toEqual([]);
  });

  it('has whole texts for a file or a pipe, and a long one widens its own line only', () => {
    const long = 'x'.repeat(500);
    expect(formatTable([...ROWS, { name: long, count: 1 }], COLUMNS)).toEqual([
      'NAME       COUNT',
      'goods:300      5',
      '商品        1200',
      `${long}      1`,
    ]);
  });
});
