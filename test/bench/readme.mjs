// Writes the figures of docs/performance.md from the results: node test/bench/readme.mjs [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { section } from './page.mjs';

const START = '<!-- bench:start -->';
const END = '<!-- bench:end -->';
const PAGE = resolve(import.meta.dirname, '../../docs/performance.md');
// The run: npm run bench -- --only 10,11 --out test/bench/results/sharing
const SHARING = 'results/sharing';

const results = resultsIn('results');
const sharing = existsSync(join(import.meta.dirname, SHARING)) ? resultsIn(SHARING) : undefined;
const text = readFileSync(PAGE, 'utf8');
const [start, end] = [text.indexOf(START), text.indexOf(END)];
if (start === -1 || end < start) throw new Error(`docs/performance.md has no ${START} … ${END}.`);
const page = `${text.slice(0, start)}${START}\n\n${section(results, sharing)}\n\n${text.slice(end)}`;
const made = await format(page, { ...(await resolveConfig(PAGE)), filepath: PAGE, proseWrap: 'always' });

if (!process.argv.includes('--check')) {
  writeFileSync(PAGE, made);
} else if (made !== text) {
  console.error('docs/performance.md differs from the results. Run node test/bench/readme.mjs to write it.');
  process.exitCode = 1;
}

function resultsIn(folder) {
  const found = JSON.parse(readFileSync(join(import.meta.dirname, folder, 'results.json'), 'utf8'));
  if (found.quick) throw new Error('The results come from a quick run. Run npm run bench.');
  const failed = found.scenarios.filter((scenario) => scenario.failed !== undefined);
  if (failed.length > 0)
    throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);
  return found;
}
