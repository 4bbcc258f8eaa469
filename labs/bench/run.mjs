// npm run bench: runs the scenarios one after another, each in its own process and on its own server, and writes the
// results, the picture and the page.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeMachine } from './machine.mjs';
import { within } from './measure.mjs';
import { Worker } from './processes.mjs';
import { writeResults } from './report.mjs';

/** The time limit of a scenario. */
const PATIENCE_MS = 600_000;
/** How much of the expected time a quick run takes. */
const QUICK_SHARE = 0.25;

/** The scenarios, and the seconds that each takes on two cores, for the estimate. */
const SCENARIOS = [
  { id: '1', file: '1-uncontended.mjs', seconds: 50 },
  { id: '1b', file: '1b-cold.mjs', seconds: 43 },
  { id: '2', file: '2-distinct-keys.mjs', seconds: 35 },
  { id: '3', file: '3-one-process.mjs', seconds: 92 },
  { id: '4', file: '4-processes.mjs', seconds: 100 },
  { id: '5', file: '5-idle-waiters.mjs', seconds: 50 },
  { id: '6', file: '6-release-to-grant.mjs', seconds: 60 },
];

const HELP = `node labs/bench/run.mjs [options]
  --quick          shorter and fewer rounds: to see that it works, not to quote
  --only 3,4       these scenarios alone (4b is part of 4)
  --out <folder>   where the results go; labs/bench/results for a full run, nowhere for any other

A full run also writes the picture and the figures of the README.`;

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(HELP);
  process.exit();
}

const say = (line) => process.stderr.write(`${line}\n`);
const minutes = (seconds) => `${(seconds / 60).toFixed(1)} min`;
const wanted = chosen(options.only?.split(',') ?? SCENARIOS.map(({ id }) => id));
const machine = await describeMachine();
const startedAt = performance.now();
const secondsSoFar = () => (performance.now() - startedAt) / 1000;

const scenarios = [];
for (const [i, part] of wanted.entries()) {
  const left = wanted.slice(i).reduce((sum, { seconds }) => sum + seconds, 0) * (options.quick ? QUICK_SHARE : 1);
  say(`${part.id}: ${part.file}, about ${minutes(left)} left`);
  const results = await runScenario(part);
  scenarios.push(...results);
  for (const result of results) tell(result);
}
say(`all of it: ${minutes(secondsSoFar())}`);
const faults = faultsOf(scenarios);
for (const fault of faults) say(`FAILED ${fault}`);
if (faults.length === 0) await write();
else say('The results are not written.');
process.exitCode = faults.length === 0 ? 0 : 1;

function chosen(ids) {
  const unknown = ids.filter((id) => !SCENARIOS.some((scenario) => scenario.id === id));
  if (unknown.length === 0) return SCENARIOS.filter(({ id }) => ids.includes(id));
  const known = SCENARIOS.map(({ id }) => id).join(', ');
  throw new Error(`There is no scenario ${unknown.join(', ')}; there are ${known}.`);
}

async function runScenario({ id, file }) {
  const worker = new Worker(file);
  try {
    return await within(PATIENCE_MS, worker.call('run', { quick: options.quick }));
  } catch (error) {
    // The other scenarios still run.
    say(`   failed: ${error.stack}`);
    return [{ id, title: file, failed: error.message, columns: [], rows: [], targets: [] }];
  } finally {
    await worker.stop();
  }
}

async function write() {
  const described = { quick: options.quick, date: new Date().toISOString().slice(0, 10), machine };
  const results = { ...described, seconds: Math.round(secondsSoFar()), scenarios };
  const isFull = !options.quick && options.only === undefined;
  const folder = options.out ?? (isFull ? join(import.meta.dirname, 'results') : undefined);
  if (folder === undefined) return;
  for (const written of await writeResults(folder, results)) say(`written: ${written}`);
  if (options.out !== undefined) return;
  execFileSync(process.execPath, [join(import.meta.dirname, 'readme.mjs')], { stdio: 'inherit' });
  say('written: README.md');
}

function tell({ id, targets = [], rows = [] }) {
  for (const each of targets) say(`   ${id}: ${toldOf(each)}`);
  for (const { name, failed } of rows) if (failed !== undefined) say(`   ${id}: ${name} failed: ${failed}`);
}

function toldOf({ name, value, comparison, limit, met, unit = '' }) {
  const number = Number.isInteger(value) ? String(value) : value.toPrecision(3);
  if (comparison === undefined) return `${name}: ${number} ${unit}`;
  return `${name}: ${number} (${comparison} ${limit}) ${met ? 'met' : 'MISSED'}`;
}

/** Returns violated exclusion, fallen tokens, stuck waiters and failures. A missed target is a result. */
function faultsOf(all) {
  const found = [];
  for (const { id, rows = [], failed } of all) {
    if (failed !== undefined) found.push(`${id}: ${failed}`);
    for (const { name, kind, failed: failure, exclusion, stuck } of rows) {
      if (kind === 'peer') continue;
      if (failure !== undefined) found.push(`${id}: ${name}: ${failure}`);
      if (stuck > 0) found.push(`${id}: ${name}: ${stuck} waiters did not get a free lock`);
      const { violations = 0, fallingTokens = 0 } = exclusion ?? {};
      if (violations === 0 && fallingTokens === 0) continue;
      found.push(`${id}: ${name}: ${violations} violations, ${fallingTokens} tokens that do not rise`);
    }
  }
  return found;
}
