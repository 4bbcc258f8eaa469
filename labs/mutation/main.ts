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
  --workers <n>      how many processes of jest run at once, 4 by default: a mutant often waits. Each takes 1 GB
  --only <text>      mutants of files whose path contains this, and prints each of them
  --survivors        runs those again that survived
  --fresh            forgets what ran before
  --keep             keeps the copy of the repository
A run that was stopped continues where it was. Each run without --only writes RESULTS.md.`;

/** The last commit before servers had a clock that the tests own. */
const BEFORE = '6612c19';
const BATCH = 20;
/** The tests of the first part of a mutant take so long, those of the next parts each time longer. */
const FIRST_PART_MS = 1_500;
const LONGER = 4;
/** The tests of a mutant take no longer than this. Otherwise the cheapest of them run. */
const MOST_MS = 60_000;
/** Loading a file takes about as long. */
const LOAD_MS = 100;

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const { values: options } = parseArgs({
  options: {
    count: { type: 'string', default: '500' },
    seed: { type: 'string', default: '30' },
    minutes: { type: 'string', default: '60' },
    workers: { type: 'string', default: '4' },
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
  /** The mutants that it reaches while modules are loaded. */
  readonly load: readonly number[];
  /** What each test reaches, and how long it takes. */
  readonly tests: readonly { readonly ms: number; readonly reached: readonly number[] }[];
  /** How long its tests and hooks take together. */
  readonly ms?: number;
  /** Whether it connects to a server of another process. */
  readonly sockets?: boolean;
  /** A test that fails in the copy, because it checks the sources for example. The file is not used. */
  readonly red?: string;
}
type Notes = Readonly<Record<string, FileNotes>>;
/** The tests of a spec file that run: all, or those with these numbers. */
interface Chosen {
  readonly name: string;
  readonly tests?: readonly number[];
}
interface Run {
  readonly id: number;
  readonly key?: string;
  readonly files: readonly Chosen[];
  /** Runs what was red without the mutant, and reports the verdict. */
  readonly isControl?: boolean;
}
type Line = Partial<Verdict> & {
  readonly id?: number;
  readonly notes?: Notes;
  /** What is red without the mutant. */
  readonly control?: { readonly by: string; readonly test: string };
};

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
/** Files some of whose tests fail without the others, and files that fail behind a mutant even so. */
const [whole, unused] = [new Set<string>(), new Set<string>()];
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
    parts.map((part) => ({ id: 0, files: part.map((name) => ({ name })) })),
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
  const count = (by: string | undefined): void => void (by !== undefined && kills.set(by, (kills.get(by) ?? 0) + 1));
  for (const { by } of verdicts.values()) count(by);
  const ms = Object.fromEntries(files.map((file) => [file, timesOf(notes[file])]));
  const left = new Set(due);
  const work = async (worker: number): Promise<void> => {
    while (left.size > 0 && minutes() < Number(options.minutes)) {
      const batch = [...left].slice(0, BATCH);
      for (const mutant of batch) left.delete(mutant);
      const planned = batch.map((mutant) => ({ mutant, ...plannedFor(mutant.id, kills) }));
      const runs = planned.flatMap(({ mutant: { id, key }, parts }) => [
        ...parts.map((part) => ({ id, key, files: part })),
        { id, key, files: [], isControl: true },
      ]);
      const lines = await jest(runs, { record: false, ms }, worker);
      for (const { mutant, isPartly } of planned) {
        const { verdict, by, test, control } = lines.find(({ id }) => id === mutant.id) ?? {};
        if (control !== undefined) {
          say(`  runs again, as ${control.by} fails by itself: ${control.test}`);
          (whole.has(control.by) ? unused : whole).add(control.by);
        }
        if (verdict === undefined || control !== undefined) left.add(mutant);
        else {
          count(by);
          const isBefore = by !== undefined && before.has(by);
          keep({ key: mutant.key, verdict, by, test, before: isBefore, ...(isPartly && { isPartly }) });
        }
      }
      tell(due.length - left.size, due.length);
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

/** The tests of a file that run for a mutant. */
interface Costly extends Chosen {
  readonly ms: number;
}

/** How long the tests of a file take, and its hooks together. */
interface Times {
  readonly tests: readonly number[];
  readonly hooks: number;
}

function timesOf({ tests, ms = 0 }: FileNotes): Times {
  const times = tests.map((test) => test.ms);
  return { tests: times, hooks: Math.max(0, ms - times.reduce((sum, each) => sum + each, 0)) };
}

/** Returns the tests that reach a mutant. What is evaluated while modules are loaded may matter to all. */
function chosenFor(id: number): readonly Costly[] {
  const isLoaded = Object.values(notes).some(({ load }) => load.includes(id));
  return files.flatMap((name) => {
    const { tests, ms = 0 } = notes[name];
    const reaching = [...tests.keys()].filter((number) => tests[number].reached.includes(id));
    if (unused.has(name) || tests.length === 0 || (!isLoaded && reaching.length === 0)) return [];
    if (isLoaded || whole.has(name)) return [{ name, ms: ms + LOAD_MS }];
    const times = timesOf(notes[name]);
    return [
      { name, tests: reaching, ms: reaching.reduce((sum, number) => sum + times.tests[number], times.hooks + LOAD_MS) },
    ];
  });
}

/** Returns the spec files that reach another mutant of the same source file in a test. */
function filesNear(id: number): ReadonlySet<string> {
  const source = sample.find((mutant) => mutant.id === id)?.file;
  const ids = sample.filter(({ file }) => file === source).map((mutant) => mutant.id);
  const reaches = (name: string): boolean =>
    notes[name].tests.some(({ reached }) => ids.some((each) => reached.includes(each)));
  return new Set(files.filter((name) => reaches(name)));
}

/**
 * Puts the tests of a mutant into their order. Files that existed before come first, then those that reach the same
 * source file, and each time those that cost least for what they have found. Files that run alone are a part of their
 * own. The first parts are small, because a part loads all of its files before the first test runs.
 */
function plannedFor(id: number, kills: ReadonlyMap<string, number>): Planned {
  const cost = ({ name, ms }: Costly): number => ms / (1 + (kills.get(name) ?? 0));
  const isBefore = ({ name }: Costly): number => Number(before.has(name));
  const near = filesNear(id);
  const isNear = ({ name }: Costly): number => Number(near.has(name));
  const chosen = chosenFor(id).toSorted(
    (a, b) => isBefore(b) - isBefore(a) || isNear(b) - isNear(a) || cost(a) - cost(b),
  );
  const parts: Costly[][] = [];
  let [longest, total] = [0, 0];
  for (const [i, file] of chosen.entries()) {
    total += file.ms;
    if (i > 0 && total > MOST_MS) return { parts, isPartly: true };
    const last = parts.at(-1) ?? [];
    const isNewKind = last.length === 0 || isBefore(file) !== isBefore(last[0]);
    const isFull = last.reduce((sum, { ms }) => sum + ms, 0) >= longest;
    if (!isNewKind && !isFull && !alone.includes(file.name) && !alone.includes(last[0].name)) last.push(file);
    else {
      longest = isNewKind ? FIRST_PART_MS : longest * LONGER;
      parts.push([file]);
    }
  }
  return { parts, isPartly: false };
}
interface Planned {
  readonly parts: readonly (readonly Chosen[])[];
  readonly isPartly: boolean;
}

/** Runs parts by one process of jest, and returns what they reported. */
async function jest(
  runs: readonly Run[],
  more: { readonly record: boolean; readonly ms: Readonly<Record<string, Times>> },
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
    files: {
      after: files.length - unused.size,
      before: before.size,
      unused: suites.length + alone.length - files.length + unused.size,
    },
    isEquivalent,
  });
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), parser: 'markdown' }));
}
