// Runs Quint, which is installed in this folder alone.
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const HERE = fileURLToPath(new URL('.', import.meta.url));
/** The version of Quint. */
export const VERSION = (
  JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
).dependencies['@informalsystems/quint'];
const CLI = join(HERE, 'node_modules/@informalsystems/quint/dist/src/cli.js');

/** The invariants of `token.qnt`. */
const INVARIANTS: readonly string[] = [
  'oneHolder',
  'holderIsHolder',
  'tokensRise',
  'notOvertaken',
  'fewRequests',
  'nothingLeft',
  'progress',
];

/** Whether Quint is installed here. */
export function isInstalled(): boolean {
  return existsSync(CLI);
}

/** Installs Quint, if it is not installed. */
export function install(): void {
  if (isInstalled()) return;
  const options = ['--ignore-scripts', '--no-audit', '--no-fund'];
  execFileSync('npm', ['ci', '--prefix', HERE, ...options], { stdio: ['ignore', 'inherit', 'inherit'] });
}

/** What Quint has printed, and its exit code. */
interface Outcome {
  readonly code: number;
  readonly output: string;
}

/** Runs a command of Quint. Does not reject if Quint fails. */
export function quint(...args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...args], { maxBuffer: 1e9 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr });
    });
  });
}

/** Random runs of a specification. */
interface Exploration {
  readonly samples: number;
  readonly steps: number;
  readonly seed: number;
}

/** A run that breaks invariants. Quint repeats it by the seed alone. */
export interface Found {
  readonly invariants: readonly string[];
  readonly steps: number;
  readonly seed: number;
}

/** Explores the module `explore` of a file. Returns undefined if all invariants hold in all runs. */
export async function explore(file: string, { samples, steps, seed }: Exploration): Promise<Found | undefined> {
  const args = ['run', '--backend', 'typescript', file, '--main', 'explore', '--verbosity', '1'];
  args.push('--max-steps', String(steps), '--invariants', ...INVARIANTS);
  // Quint prints no seed if it writes the run to a file.
  const seedOf = async (): Promise<string | undefined> => {
    const { output } = await quint(...args, '--max-samples', String(samples), '--seed', hex(seed));
    if (!/\[ok\] No violation found|\[violation\]/.test(output)) throw new Error(`Quint has failed:\n${output}`);
    return output.includes('[violation]') ? /--seed=(0x[0-9a-f]+)/.exec(output)?.[1] : undefined;
  };
  const found = samples === 1 ? hex(seed) : await seedOf();
  return found === undefined ? undefined : repeated([...args, '--max-samples', '1', '--seed', found], Number(found));
}

/** Repeats one run. Returns undefined if it breaks no invariant. */
function repeated(args: readonly string[], seed: number): Promise<Found | undefined> {
  return inFolder({}, async (folder) => {
    const trace = join(folder, 'trace.json');
    const { output } = await quint(...args, '--out-itf', trace);
    if (!output.includes('[violation]')) return undefined;
    const { states } = JSON.parse(readFileSync(trace, 'utf8')) as { readonly states: readonly unknown[] };
    const invariants = INVARIANTS.filter((name) => output.includes(`❌ ${name}`));
    return { invariants, steps: states.length - 1, seed };
  });
}

/** Writes a seed as Quint does. */
export function hex(seed: number): string {
  return `0x${seed.toString(16)}`;
}

/** Calls `use` with a new folder that has these files. Removes it afterwards. */
export async function inFolder<T>(
  files: Readonly<Record<string, string>>,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'spec-'));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
