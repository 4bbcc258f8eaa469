/** Returns the tables of a Markdown text. Rows are keyed by column name. */
function tablesOf(text: string): readonly Record<string, string>[][] {
  const cells = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  return [...text.matchAll(/(?:^\|.*\n)+/gm)].map(([table]) => {
    const [head, , ...rows] = table.trimEnd().split('\n').map(cells);
    return rows.map((row) => Object.fromEntries(head.map((column, i) => [column, row[i]])));
  });
}

/** Returns the rows of the table with these columns, or none. */
export function tableWith(text: string, columns: readonly string[]): readonly Record<string, string>[] {
  return tablesOf(text).find(([row = {}]) => Object.keys(row).join() === columns.join()) ?? [];
}
