// npm run mutation: changes the library in many small ways, and runs the tests that reach each change.
import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, setPriority } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { isEquivalent } from './equivalent.js';
import { resultsOf, type Verdict } from './results.js';
import { type Sampled, Tree } from './tree.js';

const HELP = `npm run mutation -- [options]
  --count <n>        size of the sample, 500 by default
  --seed <n>         of the sample, 30 by default
  --minutes <n>      stops after so many minutes, 60 by default
  --workers <n>      how many processes of jest run at once, 2 by default. A mutant often waits
  --only <text>      mutants of files whose path contains this, and prints each of them
  --survivors        runs those again that survived
  --fresh            forgets what ran before
  --keep             keeps the copy of the repository
A run that was stopped continues where it was. Each run without --only writes RESULTS.md.`;

/** The last commit before servers had a clock that the tests own. */
const BEFORE = '6612c19';
const BATCH = 20;
const SMALLEST_PART = 3;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    count: { type: 'string', default: '500' },
    seed: { type: 'string', default: '30' },
    minutes: { type: 'string', default: '60' },
    workers: { type: 'string', default: '2' },
    only: { type: 'string' },
    survivors: { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  say(HELP);
  process.exit();
}

/** What a spec file does without a mutant. */
interface FileNotes {
  /** The mutants that it reaches, in a test or while modules are loaded. */
  readonly reached: Readonly<Record<string, 'test' | 'load'>>;
  readonly ms?: number;
  /** Whether it connects to a server of another process. */
  readonly sockets?: boolean;
  /** A test that fails in the copy, because it checks the sources for example. The file is not used. */
  readonly red?: string;
}
type Notes = Readonly<Record<string, FileNotes>>;
interface Run {
  readonly id: number;
  readonly key?: string;
  readonly files: readonly string[];
  readonly isLast: boolean;
}
type Line = Partial<Verdict> & { readonly id?: number; readonly notes?: Notes; readonly control?: unknown };

setPriority(10);
const root = fileURLToPath(new URL('../..', import.meta.url));
const cache = join(root, '.cache/mutation');
const tree = new Tree(root, join(cache, 'tree'));
const [recorded, progress] = [join(cache, 'notes.json'), join(cache, 'verdicts.jsonl')];
const begin = performance.now();
const minutes = (): number => (performance.now() - begin) / 60_000;
if (options.fresh) rmSync(cache, { recursive: true, force: true });
mkdirSync(cache, { recursive: true });
process.on('SIGINT', () => process.exit(130));
if (!options.keep) process.on('exit', () => tree.remove());

const digest = tree.copy();
const { sample, folders } = tree.sample(Number(options.count), Number(options.seed));
tree.instrument(sample);
say(`${sample.length} mutants of ${folders.reduce((sum, { all }) => sum + all, 0)}`);

const plan = createRequire(import.meta.url)(join(tree.folder, 'test/suites/plan.cjs')) as {
  suitesOf: { quick: { groups: Record<string, readonly string[]>; alone: readonly string[] } };
};
const { groups, alone } = plan.suitesOf.quick;
const suites = Object.values(groups).flat();
const notes = await record();
const files = [...suites, ...alone].filter((file) => notes[file] !== undefined && notes[file].red === undefined);
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
const renamed = git('diff', '--find-renames', '--diff-filter=R', '--name-status', BEFORE, '--', 'test').split('\n');
const existedBefore = new Set([
  ...git('ls-tree', '-r', '--name-only', BEFORE).split('\n'),
  ...renamed.map((line) => line.split('\t')[2]),
]);
const before = new Set(files.filter((file) => existedBefore.has(file) && notes[file].sockets !== true));
const verdicts = new Map<string, Verdict>();
for (const line of linesOf(progress)) verdicts.set((line as Verdict).key, line as Verdict);

const { only } = options;
const isDue = ({ key, file }: Sampled): boolean => {
  if (only !== undefined && !file.includes(only)) return false;
  const verdict = verdicts.get(key);
  return verdict === undefined || (options.survivors && verdict.verdict === 'survived');
};
await runAll(sample.filter(isDue));
if (only === undefined) await write();

/** Runs all files without a mutant, and notes what they reach. */
async function record(): Promise<Notes> {
  const known = existsSync(recorded) ? (JSON.parse(readFileSync(recorded, 'utf8')) as Recorded) : undefined;
  const key = `${digest} ${options.count} ${options.seed}`;
  if (known?.key === key) return known.notes;
  say(`running ${suites.length + alone.length} files without a mutant`);
  const parts = [suites, ...alone.map((file) => [file])];
  const lines = await jest(
    parts.map((part) => ({ id: 0, files: part, isLast: false })),
    { record: true, ms: {} },
  );
  const all = Object.assign({}, ...lines.map((line) => line.notes ?? {})) as Notes;
  for (const [file, { red }] of Object.entries(all)) if (red !== undefined) say(`  not used: ${file}: ${red}`);
  writeFileSync(recorded, JSON.stringify({ key, notes: all } satisfies Recorded));
  say(`recorded after ${minutes().toFixed(1)} min`);
  return all;
}
interface Recorded {
  readonly key: string;
  readonly notes: Notes;
}

async function runAll(due: readonly Sampled[]): Promise<void> {
  const kills = new Map<string, number>();
  for (const { by } of verdicts.values()) if (by !== undefined) kills.set(by, (kills.get(by) ?? 0) + 1);
  const ms = Object.fromEntries(files.map((file) => [file, notes[file].ms ?? 0]));
  let left = due;
  const underWay = new Set<Sampled>();
  const work = async (worker: number): Promise<void> => {
    while (minutes() < Number(options.minutes)) {
      const batch = left.filter((mutant) => !underWay.has(mutant)).slice(0, BATCH);
      if (batch.length === 0) return;
      for (const mutant of batch) underWay.add(mutant);
      const runs = batch.flatMap(({ id, key }) => {
        const parts = partsOf(filesFor(id), kills);
        return parts.map((part, i) => ({ id, key, files: part, isLast: i === parts.length - 1 }));
      });
      const lines = await jest([...runs, { id: 0, files: [], isLast: true }], { record: false, ms }, worker);
      const control = lines.find((line) => line.control !== undefined)?.control;
      const ran = lines.filter(({ id }) => id !== undefined && id > 0);
      if (control !== undefined && control !== 'green')
        say(`  runs again, as a file fails by itself: ${JSON.stringify(control)}`);
      // Without a mutant the files that failed must pass in the same process. Otherwise each mutant runs by itself.
      const isTrusted = control === 'green' || control === undefined || batch.length === 1;
      for (const line of isTrusted ? ran : []) {
        const { verdict, by, test } = line;
        if (by !== undefined) kills.set(by, (kills.get(by) ?? 0) + 1);
        keep({
          key: line.key as string,
          verdict: verdict as Verdict['verdict'],
          by,
          test,
          before: by !== undefined && before.has(by),
        });
      }
      const decided = new Set(ran.map(({ id }) => id));
      left = left.filter((mutant) => !(isTrusted ? verdicts.has(mutant.key) && decided.has(mutant.id) : false));
      for (const { id, key } of batch) {
        // No file reaches it.
        if (runs.some((run) => run.id === id)) continue;
        keep({ key, verdict: 'survived', before: false });
        left = left.filter((mutant) => mutant.key !== key);
      }
      for (const mutant of batch) underWay.delete(mutant);
      tell(due.length - left.length, due.length);
    }
  };
  await Promise.all(Array.from({ length: Number(options.workers) }, (_, worker) => work(worker)));
}

function keep(verdict: Verdict): void {
  verdicts.set(verdict.key, verdict);
  appendFileSync(progress, `${JSON.stringify(verdict)}\n`);
  const mutant = sample.find(({ key }) => key === verdict.key);
  if (mutant === undefined || (only === undefined && verdict.verdict !== 'survived')) return;
  const { file, line, original, replacement } = mutant;
  say(`  ${verdict.verdict}: ${file}:${line} ${oneLine(original)} → ${oneLine(replacement)} ${verdict.by ?? ''}`);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 60) || '(removed)';
}

function tell(done: number, of: number): void {
  const survived = [...verdicts.values()].filter(({ verdict }) => verdict === 'survived').length;
  say(`${minutes().toFixed(1)} min: ${done} of ${of}, ${survived} of ${verdicts.size} survived so far`);
}

/** Returns the files that reach a mutant. What is evaluated while modules are loaded may matter to all. */
function filesFor(id: number): readonly string[] {
  const loaded = Object.values(notes).some(({ reached }) => reached[id] === 'load');
  return files.filter((file) => (loaded ? Object.keys(notes[file].reached).length > 0 : reaches(file, id)));
}

function reaches(file: string, id: number): boolean {
  return notes[file].reached[id] !== undefined;
}

/**
 * Puts files into their order: those that existed before come first, and each time those that cost least for what they
 * have found. Files that run alone are a part of their own. The first parts are small, because a part loads all of its
 * files before the first test runs.
 */
function partsOf(chosen: readonly string[], kills: ReadonlyMap<string, number>): readonly (readonly string[])[] {
  const cost = (file: string): number => ((notes[file].ms ?? 0) + 100) / (1 + (kills.get(file) ?? 0));
  const ordered = chosen.toSorted((a, b) => Number(before.has(b)) - Number(before.has(a)) || cost(a) - cost(b));
  const parts: string[][] = [];
  let size = 0;
  for (const file of ordered) {
    const last = parts.at(-1) ?? [];
    const isSplit = last.length >= size || before.has(file) !== before.has(last[0]);
    if (!isSplit && !alone.includes(file) && !alone.includes(last[0])) last.push(file);
    else {
      size = parts.length === 0 || before.has(file) !== before.has(last[0]) ? SMALLEST_PART : size * 3;
      parts.push([file]);
    }
  }
  return parts;
}

/** Runs parts by one process of jest, and returns what they reported. */
async function jest(
  runs: readonly Run[],
  more: { readonly record: boolean; readonly ms: Readonly<Record<string, number>> },
  worker = 0,
): Promise<readonly Line[]> {
  const folder = `mutation/${worker}`;
  rmSync(join(tree.folder, folder), { recursive: true, force: true });
  const named = Object.fromEntries(runs.map((run, i) => [String(i).padStart(4, '0'), run]));
  const [planned, results] = ['plan.json', 'results.jsonl'].map((name) => join(tree.folder, folder, name));
  for (const name of Object.keys(named)) {
    const text = `require('../../test/suites/run-suite.ts').runFiles(globalThis.mutantFiles);\n`;
    tree.write(`${folder}/${name}.ts`, text);
  }
  writeFileSync(planned, JSON.stringify({ results, runs: named, ...more }));
  const child = spawn(
    process.execPath,
    ['node_modules/jest/bin/jest.js', '--config', 'labs/mutation/jest.config.cjs', '--runInBand'],
    {
      cwd: tree.folder,
      env: { ...process.env, MUTATION_PLAN: planned },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: more.record ? undefined : Math.ceil(Math.max(1, Number(options.minutes) - minutes()) * 60_000),
      killSignal: 'SIGKILL',
    },
  );
  let errors = '';
  child.stderr.on('data', (data: Buffer) => (errors = (errors + data.toString()).slice(-4_000)));
  await new Promise((resolve) => child.on('close', resolve));
  const lines = linesOf(results);
  if (lines.length === 0 && minutes() < Number(options.minutes)) throw new Error(`jest reported nothing:\n${errors}`);
  return lines;
}

function linesOf(file: string): readonly Line[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Line);
}

async function write(): Promise<void> {
  const file = join(root, 'labs/mutation/RESULTS.md');
  const commit = git('log', '-1', '--format=%h', '--', 'lib').trim();
  const text = resultsOf({
    date: new Date().toISOString().slice(0, 10),
    versions: `lib/ of commit ${commit}, Node ${process.version}`,
    processor: cpus()[0].model,
    seed: Number(options.seed),
    sample,
    folders,
    verdicts,
    files: { after: files.length, before: before.size, unused: suites.length + alone.length - files.length },
    isEquivalent,
  });
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), parser: 'markdown' }));
}
