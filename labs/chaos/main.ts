// npm run chaos: injects every fault, with its defence and without it, and writes the results.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { resolveRedis } from '../../test/support/redis/index.js';
import { carryOut } from '../../test/support/chaos/campaign.js';
import { KeptRuns } from './kept-runs.js';
import { planOf } from './plan.js';
import { commandOf, resultsOf } from './results.js';
import { fileNameOf, KEPT, run, type RunOrder } from '../../test/support/chaos/run.js';
import { soak } from './soak/soak.js';
import { STORES, type StoreName } from '../../test/support/chaos/workload/orders.js';

const HELP = `npm run chaos -- [options]
  --quick              one fault for each defence, once, on the store token, in about two minutes on two cores
  --fault <part>       only the faults whose name contains this
  --store <name>       ${STORES.join(', ')}
  --seed <number>      repeats the choices of an earlier run
  --runs <n>           how many runs each fault has on each store, with a seed each (default 1)
  --jobs <number>      how many runs at a time (default 2, with --quick 3)
  --histories <folder> writes the history of each run into the folder, for npm run judge -- <files>
  --resume             keeps the results of an earlier campaign with the same seed, and runs only what is missing
  --soak-minutes <n>   how long the soak test takes (default 10), 0: no soak test. Use --fault none to run it alone
Only a complete run writes RESULTS.md.`;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    fault: { type: 'string' },
    store: { type: 'string' },
    seed: { type: 'string' },
    runs: { type: 'string' },
    jobs: { type: 'string' },
    histories: { type: 'string' },
    resume: { type: 'boolean', default: false },
    'soak-minutes': { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  say(HELP);
  process.exit();
}

const { quick, fault } = options;
const store = options.store as StoreName | undefined;
if (store !== undefined && !STORES.includes(store)) throw new Error(`--store is one of ${STORES.join(', ')}`);
if (quick && store !== undefined && store !== 'token') throw new Error('--quick runs on the store token only');
const seed = Number(options.seed ?? Date.now() % 1e9);
const runs = Number(options.runs ?? 1);
const whole = !quick && fault === undefined && store === undefined;
const soakMinutes = Number(options['soak-minutes'] ?? (whole ? 10 : 0));

// Read before the runs: somebody may commit meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
// Without a Redis it ends before the first run.
say(`seed ${seed}, ${(await resolveRedis({ local: true })).description}`);
const results = new KeptRuns(join(tmpdir(), 'chaos-runs', `seed-${seed}`), commit);
if (options.resume) say(`${results.resume()} results are kept`);
else results.clear();
const campaign = await carryOut(planOf({ seed, quick, fault, store, runs }), {
  jobs: Number(options.jobs ?? (quick ? 3 : 2)),
  say,
  run: (order) => results.run(order, (one) => run({ ...one, historyFile: historyFileOf(one) })),
});
const failures = [...campaign.failures];
if (soakMinutes > 0) failures.push(...(await soak({ minutes: soakMinutes, seed, say })));

for (const failure of failures) say(`FAILED ${failure}`);
if (campaign.failures.length > 0) say(`Their histories: ${KEPT}`);
if (campaign.runs.length > 0) {
  const text = await resultsText();
  process.stdout.write(text);
  if (whole && failures.length === 0) writeFileSync(fileOf('RESULTS.md'), text);
}
process.exit(failures.length > 0 ? 1 : 0);

function historyFileOf(order: RunOrder): string | undefined {
  if (options.histories === undefined) return undefined;
  mkdirSync(options.histories, { recursive: true });
  return join(options.histories, `${fileNameOf(order)}.jsonl`);
}

async function resultsText(): Promise<string> {
  const ioredis = (createRequire(import.meta.url)('ioredis/package.json') as { version: string }).version;
  const [{ version: redis }] = campaign.runs;
  const versions = `Redis ${redis}, Node ${process.version}, ioredis ${ioredis}, commit ${results.commits.join(', ')}`;
  const command = commandOf(seed, options);
  const date = new Date().toISOString().slice(0, 10);
  const config = await resolveConfig(fileOf('RESULTS.md'));
  return format(resultsOf(campaign, { seed, command, versions, date }), { ...config, parser: 'markdown' });
}

function fileOf(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}
