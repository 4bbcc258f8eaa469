// npm run judge: runs the faults of the chaos campaign with and without their defences. Porcupine judges the histories.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { fileNameOf, run, type RunOrder } from '../../../test/support/chaos/run.js';
import { planOf } from '../plan.js';
import { buildJudge } from './porcupine.js';
import { complaintOf, type Notes, rejectedOf, resultsOf, type Row } from './results.js';

const HELP = `npm run judge -- [options] [history files]
  --quick          with all defences, one fault for each of them instead of all faults
  --fault <part>   only the faults whose name contains this
  --seed <number>  repeats the choices of an earlier run
  --resume         keeps the histories of an earlier run with this seed, and judges them again
With history files, only these are judged. Without --fault, RESULTS.md is written.`;

const ATTEMPTS = 3;
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
  const verdicts = files.flatMap((file) => judge(file));
  for (const verdict of verdicts) process.stdout.write(`${JSON.stringify(verdict)}\n`);
  process.exit(verdicts.every(({ verdict }) => verdict === 'Ok') ? 0 : 1);
}

const { quick, fault } = options;
const seed = Number(options.seed ?? Date.now() % 1e9);
// Read before the runs: somebody may commit meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
if (!options.resume) rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
say(`seed ${seed}, histories in ${FOLDER}`);

// A run without a defence for each of them: the campaign has more, which break the same promises.
const known = planOf({ seed, quick: true, fault }).map((order): RunOrder => ({ ...order, control: true }));
const runs = planOf({ seed, quick, fault, store: 'token', runs: 1 }).filter(({ control }) => !control);
const orders = [...runs, ...known];
const rows: Row[] = [];
const complaints: string[] = [];
for (const [i, order] of orders.entries()) {
  const name = `${i + 1}/${orders.length} ${fileNameOf(order)}`;
  try {
    const row = await carryOut(order);
    rows.push(row);
    const complaint = complaintOf(row);
    if (complaint !== undefined) complaints.push(complaint);
    say(
      `${name}: ${rejectedOf(row).join(', ') || 'accepted'}${complaint === undefined ? '' : `, FAILED ${complaint}`}`,
    );
  } catch (error) {
    complaints.push(`${name}: ${String((error as Error).stack)}`);
    say(`FAILED ${name}: ${String((error as Error).stack)}`);
  }
}
const file = fileURLToPath(new URL('RESULTS.md', import.meta.url));
const command = `npm run judge --${quick ? ' --quick' : ''} --seed ${seed}${options.resume ? ' --resume' : ''}`;
const each = (part: 'version' | 'commit'): string => [...new Set(rows.map((row) => row[part]))].join(', ');
const versions = `Porcupine 1.3.1, Redis ${each('version')}, Node ${process.version}, commit ${each('commit')}`;
const head = `Written by \`${command}\`, not edited by hand. ${new Date().toISOString().slice(0, 10)}, ${versions}.`;
const text = await format(resultsOf(rows, head), { ...(await resolveConfig(file)), parser: 'markdown' });
process.stdout.write(text);
if (fault === undefined) writeFileSync(file, text);
for (const complaint of complaints) say(`FAILED ${complaint}`);
process.exit(complaints.length === 0 ? 0 : 1);

/** A run without a defence may be repeated, because some breaches are a race. */
async function carryOut(order: RunOrder): Promise<Row> {
  const name = join(FOLDER, fileNameOf(order));
  const historyFile = `${name}.jsonl`;
  const notes = `${name}.json`;
  for (let attempt = 1; !existsSync(notes); attempt += 1) {
    const { breaches, version } = await run({ ...order, seed: order.seed + attempt - 1, historyFile });
    if (order.control && attempt < ATTEMPTS && !breaches.has(order.fault.breaks)) continue;
    writeFileSync(notes, JSON.stringify({ version, commit, breaches: [...breaches.keys()] }));
  }
  const taken = readFileSync(historyFile, 'utf8').includes('"outcome":"taken"');
  return { ...(JSON.parse(readFileSync(notes, 'utf8')) as Notes), order, verdicts: judge(historyFile), taken };
}
