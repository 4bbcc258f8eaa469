// Writes the figures of the README from the results: node labs/bench/readme.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { replaced } from './marks.mjs';
import { headline } from './page.mjs';

const ROOT = resolve(import.meta.dirname, '../..');

const results = readResults();
await write('README.md', { figures: headline(results) });

async function write(path, parts) {
  const file = join(ROOT, path);
  const text = readFileSync(file, 'utf8');
  const page = Object.entries(parts).reduce((all, [name, part]) => replaced(all, name, part), text);
  const made = await format(page, { ...(await resolveConfig(file)), filepath: file, proseWrap: 'always' });
  if (!process.argv.includes('--check')) {
    writeFileSync(file, made);
  } else if (made !== text) {
    console.error(`${path} differs from the results. Run node labs/bench/readme.mjs to write it.`);
    process.exitCode = 1;
  }
}

function readResults() {
  const found = JSON.parse(readFileSync(join(import.meta.dirname, 'results', 'results.json'), 'utf8'));
  if (found.quick) throw new Error('The results come from a quick run. Run npm run bench.');
  const failed = found.scenarios.filter((scenario) => scenario.failed !== undefined);
  if (failed.length > 0)
    throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);
  return found;
}
