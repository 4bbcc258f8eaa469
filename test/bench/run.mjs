// npm run bench: runs the scenarios one after another, each in its own process and on its own server, and writes the
// results.
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { writeResults } from './report.mjs';
import { connect, DIST, versions } from './library.mjs';
import { within } from './measure.mjs';
import { Worker } from './processes.mjs';
import { startProfiling, stopProfiling, takeProfiles } from './profile.mjs';
import { startRedis } from './redis.mjs';

const SCENARIOS = new Map([
  ['1', '1-uncontended.mjs'],
  ['2', '2-distinct-keys.mjs'],
  ['3', '3-one-process.mjs'],
  ['4', '4-processes.mjs'],
  ['5', '5-idle-waiters.mjs'],
  ['5b', '5b-instances.mjs'],
  ['6', '6-release-to-grant.mjs'],
  ['7', '7-renewal.mjs'],
  ['8', '8-decorator.mjs'],
  ['9', '9-million-keys.mjs'],
  ['10', '10-readers-writers.mjs'],
  ['11', '11-permits.mjs'],
]);

/** The time limit of a scenario. */
const PATIENCE_MS = 600_000;

const HELP = `node test/bench/run.mjs [options]
  --quick          shorter and fewer rounds: to see that it works, not to quote
  --only 3,4       these scenarios alone (4b is part of 4, 10b of 10)
  --out <folder>   where the results go; test/bench/results for a full run, nowhere for any other
  --profile        prints profiles of every process and the server; slows the run down`;

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
const wanted = wantedScenarios(options.only);
const machine = await describeMachine();
if (options.profile) startProfiling();
const startedAt = performance.now();
const scenarios = [];
for (const id of wanted) {
  const start = performance.now();
  const file = SCENARIOS.get(id);
  say(`${id}: ${file} …`);
  const results = await runScenario(id, file);
  for (const result of results) {
    scenarios.push(result);
    for (const target of result.targets) say(`   ${result.id}: ${tell(target)}`);
  }
  say(`   ${seconds(start)} s`);
}
if (options.profile) stopProfiling();
say(`all of it: ${seconds(startedAt)} s`);

const results = { quick: options.quick, date: new Date().toISOString().slice(0, 10), machine, scenarios };
const isFull = !options.quick && !options.profile && options.only === undefined;
const folder = options.out ?? (isFull ? join(import.meta.dirname, 'results') : undefined);
if (folder !== undefined) {
  for (const written of await writeResults(folder, results)) say(`written: ${written}`);
}
process.exitCode = unsound(scenarios) ? 1 : 0;

async function runScenario(id, file) {
  const worker = new Worker(file);
  try {
    return await within(PATIENCE_MS, worker.call('run', { quick: options.quick }));
  } catch (error) {
    // The other scenarios still run.
    say(`   failed: ${error.stack}`);
    return [{ id, title: file, failed: error.message, columns: [], rows: [], targets: [] }];
  } finally {
    await worker.stop();
    if (options.profile) say(takeProfiles());
  }
}

function wantedScenarios(only) {
  const all = [...SCENARIOS.keys()];
  if (only === undefined) return all;
  const ids = [...new Set(only.split(',').map((id) => (['4b', '10b'].includes(id) ? id.slice(0, -1) : id)))];
  const unknown = ids.filter((id) => !all.includes(id));
  if (unknown.length > 0) throw new Error(`There is no scenario ${unknown.join(', ')}; there are ${all.join(', ')}.`);
  return all.filter((id) => ids.includes(id));
}

/**
 * Returns the faults: violated exclusion, fallen tokens and stuck waiters. A missed target is a result, not a fault.
 */
function unsound(all) {
  let bad = false;
  for (const { id, rows, failed } of all) {
    if (failed !== undefined) bad = true;
    for (const { name, kind, exclusion, stuck } of rows) {
      if (kind === 'ours' && stuck > 0) {
        say(`${id}: ${name}: ${stuck} waiters did not get a free lock`);
        bad = true;
      }
      if (exclusion === undefined || kind === 'peer') continue;
      if (exclusion.violations === 0 && (exclusion.fallingTokens ?? 0) === 0) continue;
      say(
        `${id}: ${name}: ${exclusion.violations} violations, ${exclusion.fallingTokens ?? 0} tokens that do not rise`,
      );
      bad = true;
    }
  }
  return bad;
}

function tell({ name, value, comparison, limit, met, unit = '' }) {
  const number = Number.isInteger(value) ? String(value) : value.toPrecision(3);
  if (comparison === undefined) return `${name}: ${number} ${unit}`;
  return `${name}: ${number} (${comparison} ${limit}) ${met ? 'met' : 'MISSED'}`;
}

function seconds(since) {
  return ((performance.now() - since) / 1000).toFixed(0);
}

async function describeMachine() {
  const redis = await startRedis();
  const client = await connect(redis.url);
  const info = await client.info('server');
  client.disconnect();
  await redis.stop();
  const [{ model }] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  return {
    processor: model.trim(),
    cores: cpus().length,
    memory,
    system: `${type()} ${release()}`,
    node: process.version,
    redis: /^redis_version:(\S+)/m.exec(info)[1],
    commit: commit(),
    libraries: versions(),
  };
}

function commit() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: DIST, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    return (
      git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--', ':/lib') === '' ? '' : ' with changes')
    );
  } catch {
    return 'unknown';
  }
}
