// npm run simulate: thousands of instances on a virtual clock. Writes results.json, chart.svg and docs/performance.md.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { scenariosFor } from '../../test/support/simulation/scenarios.js';
import { simulate } from '../../test/support/simulation/simulate.js';
import { type Costs, HOP_MS } from '../../test/support/simulation/virtual-redis.js';

const INSTANCES = 10_000;
const SEED = 1;

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const measured = JSON.parse(readFileSync(here('measured.json'), 'utf8')) as Costs;
const outcomes = [];
for (const scenario of scenariosFor(INSTANCES)) {
  process.stderr.write(`${scenario.instances} instances, ${scenario.name}\n`);
  outcomes.push(await simulate(scenario, measured, SEED));
}
const file = here('results.json');
const results = JSON.stringify({ seed: SEED, hopMs: HOP_MS, measured, outcomes });
writeFileSync(file, await format(results, { ...(await resolveConfig(file)), filepath: file }));
execFileSync(process.execPath, [here('../bench/sections.mjs')], { stdio: 'inherit' });
