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
import { NOTHING, resultsOf, type Removal, type TraceCount } from './results.js';
import { rulesOf, withoutRule } from './rules.js';
import { acceptedOf, record } from './traces.js';

const HELP = `npm run spec -- [options]
  --samples <n>   how many random runs explore the specification. Default: 1000
  --traces <n>    how many traces of the engine it has to accept. Default: 1000
  --search        looks for seeds again: each rule that is taken out gets up to 1000 random runs, with the faults that
                  seeds.json says
Writes RESULTS.md.`;

const STEPS = 100;
const SEED = 1;
const BROKEN_TRACES = 40;
const REMOVAL_STEPS = 80;
const SEARCHED = 1_000;
/** Which run shows what a rule is for. `kind` is that of `explore.qnt`. */
interface Known {
  readonly kind: number;
  readonly seed: number;
}
const SEEDS = join(HERE, 'seeds.json');

const { values: options } = parseArgs({
  options: {
    samples: { type: 'string', default: '1000' },
    traces: { type: 'string', default: '1000' },
    search: { type: 'boolean', default: false },
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
  for (const file of ['explore.qnt', 'accept.qnt']) {
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

/** Takes each rule out, and explores what is left: by the run that is known to show it, or by many. */
async function removals(): Promise<readonly Removal[]> {
  const known = JSON.parse(readFileSync(SEEDS, 'utf8')) as Record<string, Known | undefined>;
  const found: Removal[] = [];
  for (const rule of rulesOf(readFileSync(join(HERE, 'token.qnt'), 'utf8'))) {
    const { kind, seed } = known[rule.id] ?? { kind: 0, seed: SEED };
    const runs = options.search ? { samples: SEARCHED, seed: SEED } : { samples: 1, seed };
    const what = await withoutRule(rule, kind, (file) => explore(file, { ...runs, steps: REMOVAL_STEPS }));
    if (what !== undefined) known[rule.id] = { kind, seed: what.seed };
    found.push({ rule, kind, found: what, samples: runs.samples });
    say(`  ${rule.id}: ${what === undefined ? 'nothing' : `${what.invariants.join()} after ${what.steps} steps`}`);
  }
  if (options.search) writeFileSync(SEEDS, `${JSON.stringify(known, null, 2)}\n`);
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
process.exit(isSound && removed.every(({ rule, found }) => (found === undefined) === rule.id in NOTHING) ? 0 : 1);
