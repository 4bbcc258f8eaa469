// npm run model: explores the scenarios, those too that are too large for a run of tests, and writes what came of them.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname } from 'node:path';
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
  --fresh         explores again what a run that was stopped has explored
Only a run of all scenarios writes RESULTS.md. It writes the file again after each scenario. A run that was stopped
continues where it was, unless lib/, the model checker or the scenarios have changed.`;

const TELL_EVERY_MS = 5_000;
/** What decides what a scenario explores. */
const EXPLORED = ['lib', 'test/support/model-checker', 'labs/model/scenarios.ts'];

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    large: { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
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
const kept = fileURLToPath(new URL('../../.cache/model/verdicts.json', import.meta.url));
/** The version of what was explored. Undefined if that is not committed: then nothing is kept. */
const explored =
  git('status', '--porcelain', ...EXPLORED) === '' ? git('rev-parse', ...EXPLORED.map(inHead)) : undefined;
const verdicts = options.fresh ? {} : readVerdicts();
const rows: Row[] = [];
try {
  for (const [runBy, scenario] of chosen) {
    const known = verdicts[scenario.name] as Row['verdict'] | undefined;
    if (known !== undefined) say(`${scenario.name}: explored before: ${resultOf(known)}`);
    const verdict = known ?? (await carryOut(scenario));
    if (resultOf(verdict) === 'sound') verdicts[scenario.name] = verdict;
    keepVerdicts();
    rows.push({ scenario, runBy, verdict });
    if (chosen.length === all.length && isSound()) await write();
  }
} finally {
  await server.stop();
}
process.exit(isSound() ? 0 : 1);

function isSound(): boolean {
  return rows.every(({ verdict }) => resultOf(verdict) === 'sound');
}

function inHead(path: string): string {
  return `HEAD:${path}`;
}

function readVerdicts(): Record<string, Row['verdict']> {
  if (!existsSync(kept)) return {};
  const before = JSON.parse(readFileSync(kept, 'utf8')) as Kept;
  return before.explored === explored ? before.verdicts : {};
}

function keepVerdicts(): void {
  if (explored === undefined) return;
  mkdirSync(dirname(kept), { recursive: true });
  writeFileSync(kept, JSON.stringify({ explored, verdicts } satisfies Kept));
}

interface Kept {
  readonly explored?: string;
  readonly verdicts: Record<string, Row['verdict']>;
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
