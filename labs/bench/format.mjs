// Numbers and Markdown.
import { format, resolveConfig } from 'prettier';

/** Formats a number with that many decimals and with thousands separators. JSON has null for what is not finite. */
export const number = (value, digits) =>
  Number.isFinite(value)
    ? value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
    : 'none';

/** Formats a number with three significant digits. */
export function significant(value) {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return value.toLocaleString(
    'en',
    Math.abs(value) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 },
  );
}

/** Formats the milliseconds of a wait. */
export const ms = (value) => significant(value < 1 ? Number(value.toPrecision(2)) : Number(value.toPrecision(3)));

/** @param {number} [left] how many columns are left-aligned */
export function table(head, rows, left = 1) {
  const line = (cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i < left ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

/** Formats a file with prettier. */
export const pretty = async (text, filepath) =>
  format(text, { ...(await resolveConfig(filepath)), filepath, proseWrap: 'always' });

/** Returns the machine and the versions. */
export function machineLine({ machine, date }) {
  const { processor, cores, memory, system, node, redis, libraries, commit } = machine;
  const versions = Object.entries(libraries).map(([name, version]) => `${name} ${version}`);
  return `${processor}, ${cores} cores, ${memory}, ${system}; Node ${node}, Redis ${redis}; ${versions.join(', ')}; commit ${commit}; ${date}.`;
}
