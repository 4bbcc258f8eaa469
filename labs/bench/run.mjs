// npm run bench: runs the scenarios one after another, each in its own process and on its own server, and writes the
// results, the picture and the page.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { faultsOfBench } from './faults.cjs';
import { describeMachine } from './machine.mjs';
import { within } from './measure.mjs';
import { chosen } from './plan.mjs';
import { Worker } from './processes.mjs';
import { duration, Progress } from './progress.mjs';
import { writeResults } from './report.mjs';

/** The time limit of a scenario. */
const PATIENCE_MS = 600_000;
/** How much of the expected time a quick run takes. */
const QUICK_SHARE = 0.25;

const HELP = `node labs/bench/run.mjs [options]
  --quick          shorter and fewer rounds: to see that it works, not to quote
  --only 3,4       these scenarios alone (2c is part of 2b, 4b of 4)
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
const wanted = chosen(options.only);
const machine = await describeMachine();
const share = options.quick ? QUICK_SHARE : 1;
const parts = wanted.map((scenario) => ({ ...scenario, seconds: scenario.seconds * share }));
const progress = new Progress(parts);
say(`${parts.length} scenarios: about ${duration(progress.total)}`);

const scenarios = [];
for (const part of parts) {
  const results = await runPart(part, () => runScenario(part));
  scenarios.push(...results);
  for (const result of results) tell(result);
}
say(`all of it: ${duration(progress.seconds)}`);
const faults = faultsOfBench(scenarios);
for (const fault of faults) say(`FAILED ${fault}`);
if (faults.length === 0) await write();
else say('The results are not written.');
process.exitCode = faults.length === 0 ? 0 : 1;

async function runPart(part, work) {
  const start = performance.now();
  progress.begin(part);
  say(`${part.id}: ${part.file}, ${progress.left()}`);
  const results = await work();
  progress.end();
  say(`   ${((performance.now() - start) / 1000).toFixed(0)} s`);
  return results;
}

async function runScenario({ id, file }) {
  const worker = new Worker(file, { onProgress: (done) => progress.show(done) });
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
  const results = { ...described, seconds: Math.round(progress.seconds), scenarios };
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
