type Row = Readonly<Record<string, string | number>>;

/** Returns the lines of a table: the first column is aligned left, the numbers right. */
export function table(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const lines = [columns, ...rows.map((row) => columns.map((column) => String(row[column])))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] ?? '').length)));
  const format = (line: readonly string[]) =>
    line.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('   ');
  const [head, ...body] = lines.map(format);
  return [head, '─'.repeat((head ?? '').length), ...body].map((line) => `  ${line}`).join('\n');
}
