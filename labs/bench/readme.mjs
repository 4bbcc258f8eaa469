// Writes the figures of docs/performance.md from the results: node labs/bench/readme.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { replaced } from './marks.mjs';
import { costs, section } from './page.mjs';

const PAGE = resolve(import.meta.dirname, '../../docs/performance.md');

const results = readResults();
const text = readFileSync(PAGE, 'utf8');
const page = replaced(replaced(text, 'costs', costs(results)), 'bench', section(results));
const made = await format(page, { ...(await resolveConfig(PAGE)), filepath: PAGE, proseWrap: 'always' });

if (!process.argv.includes('--check')) {
  writeFileSync(PAGE, made);
} else if (made !== text) {
  console.error('docs/performance.md differs from the results. Run node labs/bench/readme.mjs to write it.');
  process.exitCode = 1;
}

function readResults() {
  const found = JSON.parse(readFileSync(join(import.meta.dirname, 'results', 'results.json'), 'utf8'));
  if (found.quick) throw new Error('The results come from a quick run. Run npm run bench.');
  const failed = found.scenarios.filter((scenario) => scenario.failed !== undefined);
  if (failed.length > 0)
    throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);
  return found;
}
