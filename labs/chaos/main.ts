// npm run chaos: injects every fault, with its defence and without it, and writes the results.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { fileNameOf, KEPT, run, type RunOrder } from '../../test/support/chaos/run.js';
import { STORES, type StoreName } from '../../test/support/chaos/workload/orders.js';
import { resolveRedis } from '../../test/support/redis/index.js';
import { carryOut, KeptRuns, planOf } from './campaign.js';
import { resultsOf } from './results.js';
import { soak } from './soak/soak.js';

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

const { quick, fault, histories } = options;
const store = options.store as StoreName | undefined;
if (store !== undefined && !STORES.includes(store)) throw new Error(`--store is one of ${STORES.join(', ')}`);
if (quick && store !== undefined && store !== 'token') throw new Error('--quick runs on the store token only');
const seed = Number(options.seed ?? Date.now() % 1e9);
const isWhole = !quick && fault === undefined && store === undefined;
const minutes = Number(options['soak-minutes'] ?? (isWhole ? 10 : 0));

// Read before the runs: somebody may commit meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
// Without a Redis it ends before the first run.
say(`seed ${seed}, ${(await resolveRedis({ local: true })).description}`);
const kept = new KeptRuns(seed, commit, options.resume);
if (options.resume) say(`${kept.size} results are kept`);
if (histories !== undefined) mkdirSync(histories, { recursive: true });
const historyFileOf = (order: RunOrder): string | undefined =>
  histories === undefined ? undefined : join(histories, `${fileNameOf(order)}.jsonl`);
const { results, failures } = await carryOut(planOf({ seed, quick, fault, store, runs: Number(options.runs ?? 1) }), {
  jobs: Number(options.jobs ?? (quick ? 3 : 2)),
  say,
  run: (order) => kept.run(order, (one) => run(one, historyFileOf(one))),
});
const leaks = minutes > 0 ? await soak({ minutes, seed, say }) : [];

for (const failure of [...failures, ...leaks]) say(`FAILED ${failure}`);
if (failures.length > 0) say(`Their histories: ${KEPT}`);
const hasFailed = failures.length + leaks.length > 0;
if (results.length > 0) {
  const ioredis = (createRequire(import.meta.url)('ioredis/package.json') as { version: string }).version;
  const redis = results[0].version;
  const given = process.argv
    .slice(2)
    .join(' ')
    .replace(/--seed[ =]\d+ ?/, '')
    .replace(/--histories[ =]\S+ ?/, '');
  const command = `npm run chaos -- --seed ${seed} ${given}`.trim();
  const versions = `Redis ${redis}, Node ${process.version}, ioredis ${ioredis}, commit ${kept.commits}`;
  const file = fileURLToPath(new URL('RESULTS.md', import.meta.url));
  const config = { ...(await resolveConfig(file)), parser: 'markdown' };
  const text = await format(resultsOf(results, command, `seed ${seed}, ${versions}`), config);
  process.stdout.write(text);
  if (isWhole && !hasFailed) writeFileSync(file, text);
}
process.exit(hasFailed ? 1 : 0);
