// npm run simulate: thousands of instances on a virtual clock. Writes results.json, chart.svg and docs/performance.md.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { scenariosFor } from '../../test/support/simulation/scenarios.js';
import { simulate } from '../../test/support/simulation/simulate.js';
import { type Costs, HOP_MS } from '../../test/support/simulation/virtual-redis.js';

const INSTANCES = 10_000;
const SEED = 1;

const HELP = `npm run simulate -- [options]
  --instances <n>  how many instances (default ${INSTANCES}). Any other number writes nothing
  --measure        first measures what requests cost a real Redis, and writes measured.json`;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    instances: { type: 'string', default: String(INSTANCES) },
    measure: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  say(HELP);
  process.exit();
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
