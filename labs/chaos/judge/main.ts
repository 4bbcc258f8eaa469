// npm run judge: runs the faults of the chaos campaign with and without their defences. Porcupine judges the histories.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { fileNameOf, nameOf, run, type RunOrder } from '../../../test/support/chaos/run.js';
import { carryOut, KeptRuns, planOf, QUICK } from '../campaign.js';
import { buildJudge } from './porcupine.js';
import { complaintsOf, resultsOf } from './results.js';

const HELP = `npm run judge -- [options] [history files]
  --quick               with all defences, one fault for each of them instead of all faults
  --fault <part>        only the faults whose name contains this
  --seed <number>       repeats the choices of an earlier run
  --histories <folder>  where the histories are (default: a folder of the system for temporary files)
  --resume              judges the histories of an earlier run with this seed, of npm run chaos too, and runs the rest
With history files, only these are judged. Without --fault, RESULTS.md is written.`;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options, positionals: files } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    fault: { type: 'string' },
    seed: { type: 'string' },
    histories: { type: 'string', default: join(tmpdir(), 'judged-histories') },
    resume: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
if (options.help) {
  say(HELP);
  process.exit();
}

let judge: ReturnType<typeof buildJudge>;
try {
  judge = buildJudge();
} catch (error) {
  say((error as Error).message);
  process.exit(1);
}
if (files.length > 0) {
  const verdicts = judge(...files);
  for (const verdict of verdicts) process.stdout.write(`${JSON.stringify(verdict)}\n`);
  process.exit(verdicts.every(({ verdict }) => verdict === 'Ok') ? 0 : 1);
}

const { quick, fault, resume, histories } = options;
const seed = Number(options.seed ?? Date.now() % 1e9);
// Read before the runs: somebody may commit meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
mkdirSync(histories, { recursive: true });
say(`seed ${seed}, histories in ${histories}`);
const kept = new KeptRuns(seed, commit, resume);
const historyOf = (order: RunOrder): string => join(histories, `${fileNameOf(order)}.jsonl`);

// One run without each defence: the campaign has more, which break the same promises.
const orders = planOf({ seed, quick: false, fault, store: 'token' }).filter(
  (order) => QUICK.includes(order.fault) || !(quick || order.control),
);
const { results, failures } = await carryOut(orders, {
  jobs: 1,
  say,
  run: (order) => kept.run(order, (one) => run(one, historyOf(one))),
});
const unwritten = results.filter(({ order }) => !existsSync(historyOf(order)));
if (unwritten.length > 0) {
  const first = nameOf(unwritten[0].order);
  say(`${unwritten.length} kept runs have no history in ${histories}, first ${first}.`);
  say('Give the folder of `npm run chaos -- --histories`, or leave --resume out.');
  process.exit(1);
}
const rows = results.map((result) => {
  const history = historyOf(result.order);
  const taken = readFileSync(history, 'utf8').includes('"outcome":"taken"');
  return { ...result, verdicts: judge(history), taken };
});
const complaints = [...failures, ...complaintsOf(rows)];

const file = fileURLToPath(new URL('RESULTS.md', import.meta.url));
const command = `npm run judge --${quick ? ' --quick' : ''} --seed ${seed}${resume ? ' --resume' : ''}`;
const redis = [...new Set(rows.map(({ version }) => version))].join(', ');
const versions = `Porcupine 1.3.1, Redis ${redis}, Node ${process.version}, commit ${kept.commits}`;
const head = `Written by \`${command}\`, not edited by hand. ${new Date().toISOString().slice(0, 10)}, ${versions}.`;
const text = await format(resultsOf(rows, head), { ...(await resolveConfig(file)), parser: 'markdown' });
process.stdout.write(text);
if (fault === undefined) writeFileSync(file, text);
for (const complaint of complaints) say(`FAILED ${complaint}`);
process.exit(complaints.length === 0 ? 0 : 1);
