// Writes the tables of docs/versions.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';

const PAGE = join(import.meta.dirname, '../../docs/versions.md');

/** Stands before and after a table. */
const markOf = (name) => `<!-- npm run test:versions (${name}) -->`;

/** Returns a table of Markdown. */
export function tableOf(head, rows) {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Replaces what stands between the marks of a name. */
export async function writeTable(name, text) {
  const parts = readFileSync(PAGE, 'utf8').split(markOf(name));
  if (parts.length !== 3) throw new Error(`${PAGE} has ${parts.length - 1} marks "${markOf(name)}". Allowed are 2.`);
  const page = [parts[0], `\n\n${text}\n\n`, parts[2]].join(markOf(name));
  writeFileSync(PAGE, await format(page, { ...(await resolveConfig(PAGE)), filepath: PAGE }));
}
