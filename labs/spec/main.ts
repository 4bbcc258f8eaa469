// npm run spec: checks the specification in token.qnt with Quint, and writes what came of it.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import * as broken from '../../test/support/model-checker/broken.js';
import { Samples } from '../../test/support/model-checker/exchange.js';
import { replay } from '../../test/support/model-checker/verdict.js';
import { startRedis } from '../../test/support/redis/index.js';
import { explore, HERE, install, quint, VERSION } from './quint.js';
import { isShown, resultsOf, type Removal, type TraceCount } from './results.js';
import { breaksWithout, rulesOf, runsOf } from './rules.js';
import { acceptedOf, record } from './traces.js';

const HELP = `npm run spec -- [options]
  --samples <n>   how many random runs explore the specification. Default: 1000
  --traces <n>    how many traces of the engine it has to accept. Default: 1000
Writes RESULTS.md.`;

const STEPS = 100;
const SEED = 1;
const BROKEN_TRACES = 40;

const { values: options } = parseArgs({
  options: {
    samples: { type: 'string', default: '1000' },
    traces: { type: 'string', default: '1000' },
    help: { type: 'boolean', default: false },
  },
});
const say = (line: string): void => void process.stderr.write(`${line}\n`);
if (options.help) {
  say(HELP);
  process.exit();
}

/** Runs a part, and says how long it took. */
async function timed<T>(what: string, run: () => Promise<T>): Promise<readonly [T, seconds: number]> {
  const begin = performance.now();
  const result = await run();
  const seconds = Math.round((performance.now() - begin) / 1_000);
  say(`${what}: ${seconds} s`);
  return [result, seconds];
}

async function typecheck(): Promise<void> {
  for (const file of ['explore.qnt', 'rules.qnt', 'accept.qnt']) {
    const { code, output } = await quint('typecheck', join(HERE, file));
    if (code !== 0) throw new Error(`${file} has errors:\n${output}`);
  }
}

/** Checks traces of the engine, and compares what its server did with the scripts on a real Redis. */
async function checkTraces(count: number): Promise<TraceCount> {
  const samples = new Samples();
  const traces = record(count, samples);
  const accepted = await acceptedOf(traces);
  const server = await startRedis({ local: true });
  try {
    const differences = await replay(samples, server.url);
    for (const difference of differences) say(difference);
    const isSame = differences.length === 0;
    const { length: events } = traces.flat();
    return { name: 'the engine', traces: count, events, accepted, exchanges: samples.seen.size, isSame };
  } finally {
    await server.stop();
  }
}

async function checkBroken(): Promise<readonly TraceCount[]> {
  const counts: TraceCount[] = [];
  for (const variant of Object.values(broken)) {
    const traces = record(BROKEN_TRACES, new Samples(), variant);
    const accepted = await acceptedOf(traces);
    counts.push({ name: variant.name, traces: traces.length, events: traces.flat().length, accepted });
    say(`  ${variant.name}: ${traces.length - accepted} of ${traces.length} traces rejected`);
  }
  return counts;
}

/** Takes each rule out: its run breaks an invariant then. */
async function removals(): Promise<readonly Removal[]> {
  const rules = rulesOf(readFileSync(join(HERE, 'token.qnt'), 'utf8'));
  const runs = await runsOf(rules);
  const found: Removal[] = [];
  for (const [i, rule] of rules.entries()) {
    const removal = { rule, run: runs[i], breaks: await breaksWithout(rule) };
    found.push(removal);
    if (!isShown(removal)) say(`  ${rule.id}: its run does not show what it is for`);
  }
  return found;
}

install();
const [, typecheckS] = await timed('typecheck', typecheck);
const samples = Number(options.samples);
const [violation, exploreS] = await timed('exploration', () => {
  return explore(join(HERE, 'explore.qnt'), { samples, steps: STEPS, seed: SEED });
});
const [traces, tracesS] = await timed('traces', () => checkTraces(Number(options.traces)));
const [brokenTraces, brokenS] = await timed('traces of broken engines', checkBroken);
const [removed, removedS] = await timed('removal of rules', removals);

const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
const head = { date: new Date().toISOString().slice(0, 10), commit, node: process.version, quint: VERSION };
const seconds = { typecheck: typecheckS, explore: exploreS, traces: tracesS, broken: brokenS, removals: removedS };
const file = join(HERE, 'RESULTS.md');
const text = resultsOf({ head, seconds, samples, steps: STEPS, violation, traces, brokenTraces, removed });
writeFileSync(file, await format(text, { ...(await resolveConfig(file)), parser: 'markdown' }));
const isSound = violation === undefined && traces.accepted === traces.traces && traces.isSame === true;
process.exit(isSound && removed.every((removal) => isShown(removal)) ? 0 : 1);
