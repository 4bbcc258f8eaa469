// npm run model: explores the scenarios, those too that are too large for a run of tests, and writes what came of them.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { startRedis } from '../../test/support/redis/index.js';
import { resultOf, resultsOf, type Row } from './results.js';
import { LARGE } from './scenarios.js';
import type { Scenario } from '../../test/support/model-checker/scenario.js';
import { TESTED } from '../../test/support/model-checker/scenarios.js';
import { examine } from '../../test/support/model-checker/verdict.js';

const HELP = `npm run model -- [options]
  --only <text>   scenarios whose name holds this, alone
  --large         only those that npm run test:full does not explore
Only a run of all scenarios writes RESULTS.md. It writes the file again after each scenario.`;

const TELL_EVERY_MS = 5_000;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    large: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  say(HELP);
  process.exit();
}

const all: readonly (readonly [runBy: string, scenario: Scenario])[] = [
  ...TESTED.map((scenario) => ['npm run test:full', scenario] as const),
  ...LARGE.map((scenario) => ['npm run model', scenario] as const),
];
const { only = '', large } = options;
const chosen = all.filter(([runBy, { name }]) => name.includes(only) && (!large || runBy === 'npm run model'));
if (chosen.length === 0) throw new Error(`no scenario has ${only} in its name`);

const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim();
// Of what runs: meanwhile somebody may commit.
const commit = git('rev-parse', '--short', 'HEAD');
const date = new Date().toISOString().slice(0, 10);
const [{ model: processor }] = cpus();
const server = await startRedis({ local: true });
const head = { date, versions: `commit ${commit}, Node ${process.version}, ${server.description}`, processor };
const file = fileURLToPath(new URL('RESULTS.md', import.meta.url));
const rows: Row[] = [];
try {
  for (const [runBy, scenario] of chosen) {
    rows.push({ scenario, runBy, verdict: await carryOut(scenario) });
    if (chosen.length === all.length && isSound()) await write();
  }
} finally {
  await server.stop();
}
process.exit(isSound() ? 0 : 1);

function isSound(): boolean {
  return rows.every(({ verdict }) => resultOf(verdict) === 'sound');
}

async function carryOut(scenario: Scenario): Promise<Row['verdict']> {
  const begin = performance.now();
  let told = begin;
  const verdict = await examine(scenario, server.url, ({ states, transitions }) => {
    const now = performance.now();
    if (now - told < TELL_EVERY_MS) return;
    told = now;
    say(`  ${((now - begin) / 1_000).toFixed(0)} s: ${states} states, ${transitions} transitions so far`);
  });
  const { states, transitions, seconds, violation, differences } = verdict;
  say(`${scenario.name}: ${states} states, ${transitions} transitions, ${seconds.toFixed(1)} s: ${resultOf(verdict)}`);
  for (const line of [violation ?? [], differences].flat()) say(line);
  return verdict;
}

async function write(): Promise<void> {
  const missing = all.slice(rows.length).map(([, { name }]) => name);
  const text = resultsOf(rows, missing, head);
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), parser: 'markdown' }));
}
