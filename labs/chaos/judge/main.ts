// npm run judge: runs the faults of the chaos campaign with and without their defences. Porcupine judges the histories.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { fileNameOf, run, type RunOrder } from '../../../test/support/chaos/run.js';
import { carryOut, KeptRuns, planOf } from '../campaign.js';
import { buildJudge } from './porcupine.js';
import { complaintsOf, resultsOf } from './results.js';

const HELP = `npm run judge -- [options] [history files]
  --quick          with all defences, one fault for each of them instead of all faults
  --fault <part>   only the faults whose name contains this
  --seed <number>  repeats the choices of an earlier run
  --resume         keeps the histories of an earlier run with this seed, and judges them again
With history files, only these are judged. Without --fault, RESULTS.md is written.`;

const FOLDER = join(tmpdir(), 'judged-histories');

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options, positionals: files } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    fault: { type: 'string' },
    seed: { type: 'string' },
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

const { quick, fault, resume } = options;
const seed = Number(options.seed ?? Date.now() % 1e9);
// Read before the runs: somebody may commit meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
if (!resume) rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
say(`seed ${seed}, histories in ${FOLDER}`);
const kept = new KeptRuns(join(FOLDER, `seed-${seed}`), commit, resume);
const historyOf = (order: RunOrder): string => join(FOLDER, `${fileNameOf(order)}.jsonl`);

// A run without a defence for each of them: the campaign has more, which break the same promises.
const known = planOf({ seed, quick: true, fault }).map((order) => ({ ...order, control: true }));
const runs = planOf({ seed, quick, fault, store: 'token' }).filter(({ control }) => !control);
const { results, failures } = await carryOut([...runs, ...known], {
  jobs: 1,
  say,
  run: (order) => kept.run(order, (one) => run(one, historyOf(one))),
});
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
