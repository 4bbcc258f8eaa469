// npm run simulate: thousands of instances on a virtual clock. Writes results.json, chart.svg and README.md.
// With --faults: see faults.ts.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { replay, runFaults } from './faults.js';
import { scenariosFor } from '../../test/support/simulation/scenarios.js';
import { simulate } from '../../test/support/simulation/simulate.js';
import { type Costs, HOP_MS } from '../../test/support/simulation/virtual-redis.js';

const INSTANCES = 10_000;
const SEED = 1;
const SEEDS = 100_000;

const HELP = `npm run simulate -- [options]
  --instances <n>  how many instances (default ${INSTANCES}). Any other number writes nothing
  --measure        first measures what requests cost a real Redis, and writes measured.json
  --faults         many small runs of the whole engine with faults, by seed. Writes FAULTS.md
  --seeds <n>      how many seeds (default ${SEEDS.toLocaleString('en')}). Fewer write nothing
  --from <seed>    the first seed (default 1)
  --minutes <n>    stops after that time, and writes what it ran
  --seed <seed>    runs one seed, says all that happens, and shrinks it if it fails`;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    instances: { type: 'string', default: String(INSTANCES) },
    measure: { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
    seeds: { type: 'string', default: String(SEEDS) },
    from: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    seed: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  say(HELP);
  process.exit();
}

if (options.seed !== undefined) process.exit((await replay(Number(options.seed))) ? 0 : 1);
if (options.faults) {
  const seeds = Number(options.seeds);
  const minutes = Number(options.minutes ?? Infinity);
  const writes = seeds >= SEEDS;
  process.exit((await runFaults({ from: Number(options.from), seeds, minutes, writes })) ? 0 : 1);
}

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
// Runs when it is loaded.
if (options.measure) await import('./measure.js');
const measured = JSON.parse(readFileSync(here('measured.json'), 'utf8')) as Costs;
const instances = Number(options.instances);
const outcomes = [];
for (const scenario of scenariosFor(instances)) {
  say(`${scenario.instances} instances, ${scenario.name}`);
  outcomes.push(await simulate(scenario, measured, SEED));
}
if (instances === INSTANCES) {
  const file = here('results.json');
  const results = JSON.stringify({ seed: SEED, hopMs: HOP_MS, measured, outcomes });
  writeFileSync(file, await format(results, { ...(await resolveConfig(file)), filepath: file }));
  execFileSync(process.execPath, [here('../bench/sections.mjs')], { stdio: 'inherit' });
} else {
  for (const { scenario, servedMs, requestsPerLock } of outcomes) {
    const figures = `${servedMs.toFixed(0)} ms until all are served, ${requestsPerLock.toFixed(1)} requests per lock`;
    say(`${scenario.name}, ${scenario.instances} instances: ${figures}`);
  }
}
