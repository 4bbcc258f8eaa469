// Writes the figures of the README from the results: node labs/bench/readme.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { number, pretty, table } from './format.mjs';

const FILE = join(resolve(import.meta.dirname, '../..'), 'README.md');
const OURS = 'nestjs-redis-lock';

const results = JSON.parse(readFileSync(join(import.meta.dirname, 'results', 'results.json'), 'utf8'));
if (results.quick) throw new Error('The results come from a quick run. Run npm run bench.');
const failed = results.scenarios.filter((scenario) => scenario.failed !== undefined);
if (failed.length > 0)
  throw new Error(`The results are not complete: ${failed.map(({ id }) => id).join(', ')} failed.`);

const page = readFileSync(FILE, 'utf8');
const made = await pretty(replaced(page, 'figures', headline(results)), FILE);
if (!process.argv.includes('--check')) {
  writeFileSync(FILE, made);
} else if (made !== page) {
  console.error('README.md differs from the results. Run node labs/bench/readme.mjs to write it.');
  process.exitCode = 1;
}

/** Returns the page with another text between the marks of a part. */
function replaced(text, name, part) {
  const [start, end] = [`<!-- ${name}:start -->`, `<!-- ${name}:end -->`];
  const [from, to] = [text.indexOf(start), text.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`The page has no ${start} … ${end}.`);
  return `${text.slice(0, from)}${start}\n\n${part}\n\n${text.slice(to)}`;
}

/** Returns three figures beside the best peer of each: the table of the README. */
function headline({ scenarios, machine, date }) {
  const compared = [
    ['from one of 50 callers in a process to the next', '3', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['from one of 40 callers in four processes to the next', '4', ({ msPerHandoff }) => msPerHandoff.median * 1_000],
    ['acquire and release a free lock', '1', ({ us }) => us.median],
  ];
  const rows = compared.map(([what, id, usOf]) => {
    const measured = scenarios.find((scenario) => scenario.id === id).rows.filter((row) => row.figures !== undefined);
    const [peer] = measured
      .filter(({ kind }) => kind === 'peer')
      .toSorted((one, other) => usOf(one.figures) - usOf(other.figures));
    const ours = measured.find(({ name }) => name === OURS);
    return [what, `${number(usOf(ours.figures), 0)} µs`, `${number(usOf(peer.figures), 0)} µs (${peer.name})`];
  });
  const { processor, cores } = machine;
  return [
    table(['', 'this library', 'fastest other library'], rows),
    `Medians of \`npm run bench\` on ${processor}, ${cores} cores, ${date}. More: [What a lock costs](docs/production.md#what-a-lock-costs).`,
  ].join('\n\n');
}
