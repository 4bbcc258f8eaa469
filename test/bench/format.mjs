// Numbers and Markdown.
import { format, resolveConfig } from 'prettier';

/** With so many decimals, and thousands separated. */
export const number = (value, digits) =>
  value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Three significant digits, for figures of any size. */
export function significant(value) {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return value.toLocaleString(
    'en',
    Math.abs(value) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 },
  );
}

/** Milliseconds of a wait. */
export const ms = (value) => significant(value < 1 ? Number(value.toPrecision(2)) : Number(value.toPrecision(3)));

/** @param {number} [left] how many columns hold words */
export function table(head, rows, left = 1) {
  const line = (cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i < left ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

/** As the repository's formatter wants it. */
export const pretty = async (text, filepath) => format(text, { ...(await resolveConfig(filepath)), filepath });

/** What it was measured on. */
export function machineLine({ machine, date }) {
  const { processor, cores, memory, system, node, redis, libraries, commit } = machine;
  const versions = Object.entries(libraries).map(([name, version]) => `${name} ${version}`);
  return `${processor}, ${cores} cores, ${memory}, ${system}; Node ${node}, Redis ${redis}; ${versions.join(', ')}; commit ${commit}; ${date}.`;
}
