// npm run bench: runs the scenarios one after another, each in its own process and on its own server, and writes the
// results, the picture and the page.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildBefore } from './before.mjs';
import { faultsOfBench } from './faults.cjs';
import { describeMachine } from './machine.mjs';
import { within } from './measure.mjs';
import { chosen, ON_EACH_VERSION, SECONDS_OF_VERSION } from './plan.mjs';
import { Worker } from './processes.mjs';
import { profileFlags, startProfiling, stopProfiling, takeProfiles } from './profile.mjs';
import { duration, Progress } from './progress.mjs';
import { writeResults } from './report.mjs';
import { judgedIn, pairs } from './versions.mjs';

/** The time limit of a scenario. */
const PATIENCE_MS = 600_000;
/** How much of the expected time a quick run takes. */
const QUICK_SHARE = 0.25;

const HELP = `node labs/bench/run.mjs [options]
  --quick          shorter and fewer rounds: to see that it works, not to quote
  --only 3,4       these scenarios alone (4b is part of 4, 10b of 10). "versions": the first four on several versions
  --out <folder>   where the results go; labs/bench/results for a full run, nowhere for any other
  --profile        prints profiles of every process and the server; slows the run down

A full run also writes the picture and docs/performance.md.`;

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    out: { type: 'string' },
    profile: { type: 'boolean', default: false },
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
findBefore();
if (options.profile) startProfiling();
const onVersions = wanted.versions ? pairs() : [];
const share = options.quick ? QUICK_SHARE : 1;
const parts = [
  ...wanted.scenarios.map((scenario) => ({ ...scenario, seconds: scenario.seconds * share })),
  ...onVersions.map(({ node, server, reason }) => {
    const seconds = reason === undefined ? SECONDS_OF_VERSION * (options.quick ? 0.7 : 1) : 0;
    return { id: `${node}, ${server}`, seconds };
  }),
];
const progress = new Progress(parts);
say(`${wanted.scenarios.length} scenarios, ${onVersions.length} pairs of versions: about ${duration(progress.total)}`);

const scenarios = [];
for (const [i, { id, file }] of wanted.scenarios.entries()) {
  const results = await runPart(parts[i], () => runScenario(id, file));
  scenarios.push(...results);
  for (const result of results) tell(result);
}
const versions = [];
for (const [i, pair] of onVersions.entries()) versions.push(await runOn(pair, parts[wanted.scenarios.length + i]));
if (options.profile) stopProfiling();
say(`all of it: ${duration(progress.seconds)}`);
const faults = faultsOfBench(scenarios, versions);
for (const fault of faults) say(`FAILED ${fault}`);
if (faults.length === 0) await write();
else say('The results are not written.');
process.exitCode = faults.length === 0 ? 0 : 1;

async function runPart(part, work) {
  const start = performance.now();
  progress.begin(part);
  say(`${part.id}: ${part.file ?? 'scenarios 1 to 4'}, ${progress.left()}`);
  const results = await work();
  progress.end();
  say(`   ${((performance.now() - start) / 1000).toFixed(0)} s`);
  return results;
}

async function runScenario(id, file, { few = false, ...how } = {}) {
  const worker = new Worker(file, { onProgress: few ? undefined : (done) => progress.show(done), ...how });
  try {
    return await within(PATIENCE_MS, worker.call('run', { quick: options.quick, few }));
  } catch (error) {
    // The other scenarios still run.
    say(`   failed: ${error.stack}`);
    return [{ id, title: file, failed: error.message, columns: [], rows: [], targets: [] }];
  } finally {
    await worker.stop();
    if (profileFlags().length > 0) say(takeProfiles());
  }
}

/** Runs the first scenarios on other versions. */
async function runOn({ node, server, execPath, binary, reason }, part) {
  if (reason !== undefined) {
    say(`${node}, ${server}: not available here: ${reason}`);
    return { node, server, reason, figures: [] };
  }
  const env = { ...process.env, REDIS_SERVER_BIN: binary };
  const results = await runPart(part, async () => {
    const all = [];
    for (const [i, { id, file }] of ON_EACH_VERSION.entries()) {
      all.push(...(await runScenario(id, file, { few: true, execPath, env })));
      progress.show((i + 1) / ON_EACH_VERSION.length);
    }
    return all;
  });
  for (const result of results) tell(result);
  return { node, server, figures: judgedIn(results) };
}

function findBefore() {
  if (process.env.NRL_BEFORE) return;
  try {
    process.env.NRL_BEFORE = buildBefore();
  } catch (error) {
    process.env.NRL_BEFORE_MISSING = `the build before is missing: ${error.message.split('\n')[0]}`;
    say(process.env.NRL_BEFORE_MISSING);
  }
}

async function write() {
  const described = { quick: options.quick, date: new Date().toISOString().slice(0, 10), machine };
  const results = { ...described, seconds: Math.round(progress.seconds), scenarios, versions };
  const isFull = !options.quick && !options.profile && options.only === undefined;
  const folder = options.out ?? (isFull ? join(import.meta.dirname, 'results') : undefined);
  if (folder === undefined) return;
  for (const written of await writeResults(folder, results)) say(`written: ${written}`);
  if (options.out !== undefined) return;
  execFileSync(process.execPath, [join(import.meta.dirname, 'readme.mjs')], { stdio: 'inherit' });
  say('written: docs/performance.md');
}

function tell({ id, absent, targets = [], rows = [] }) {
  if (absent !== undefined) say(`   ${id}: ${absent}`);
  for (const each of targets) say(`   ${id}: ${toldOf(each)}`);
  for (const { name, failed } of rows) if (failed !== undefined) say(`   ${id}: ${name} failed: ${failed}`);
}

function toldOf({ name, value, comparison, limit, met, unit = '', unmeasured }) {
  if (unmeasured !== undefined) return `${name}: not measured (${comparison} ${limit}): ${unmeasured}`;
  const number = Number.isInteger(value) ? String(value) : value.toPrecision(3);
  if (comparison === undefined) return `${name}: ${number} ${unit}`;
  return `${name}: ${number} (${comparison} ${limit}) ${met ? 'met' : 'MISSED'}`;
}
