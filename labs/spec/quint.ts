// Runs Quint, which `package.json` of this folder names.
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../../test/support/install-packages.js';
import type { Trace } from './traces.js';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const FOLDER = join(HERE, '../../.cache/spec');
const CLI = join(FOLDER, 'node_modules/@informalsystems/quint/dist/src/cli.js');
const FILES = ['lock.qnt', 'accept.qnt'];

/** Installs Quint if its version has changed. */
export function install(): Promise<void> {
  return installPackages(HERE, FOLDER);
}

/** Runs a command of Quint. Returns what it has printed. Does not reject if Quint fails. */
function quint(...args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...args], { maxBuffer: 1e9 }, (_, stdout, stderr) => resolve(stdout + stderr));
  });
}

/** Returns what Quint prints about random runs of `small.qnt`. */
export async function simulate(samples: number, steps: number, seed: number): Promise<string> {
  const args = ['run', '--backend', 'typescript', join(HERE, 'small.qnt'), '--main', 'small', '--verbosity', '1'];
  args.push('--max-steps', String(steps), '--max-samples', String(samples), '--seed', `0x${seed.toString(16)}`);
  return quint(...args, '--invariants', ...INVARIANTS);
}

/** The invariants of `lock.qnt`. */
const INVARIANTS = ['trustedIsHeld', 'exclusion', 'tokensRise', 'nothingLeft', 'oneRequest', 'handedOff', 'askedFor'];

/** Returns which of the traces the specification accepts. Quint tests each of them. */
export async function accepts(traces: readonly Trace[]): Promise<readonly boolean[]> {
  const folder = mkdtempSync(join(tmpdir(), 'spec-'));
  try {
    for (const name of FILES) cpSync(join(HERE, name), join(folder, name));
    writeFileSync(join(folder, 'traces.qnt'), testsOf(traces));
    const args = ['--backend', 'typescript', '--max-samples', '1', '--main', 'traces'];
    const output = await quint('test', join(folder, 'traces.qnt'), ...args);
    if (!/\d+ (?:passing|failed)/.test(output)) throw new Error(`Quint has failed:\n${output}`);
    return traces.map((_, i) => output.includes(`ok trace${i}Test passed`));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns run tests of Quint, one for each trace. */
function testsOf(traces: readonly Trace[]): string {
  const runs = traces.map((steps, i) => {
    const packed = steps.map((step) => {
      const digits = step.map((number) => {
        if (!(number >= -1 && number < 0xffffffff)) throw new Error(`${step.join()} does not fit into a step`);
        return (number + 1).toString(16).padStart(8, '0');
      });
      return `0x${digits.toReversed().join('')}`;
    });
    return `  pure val E${i} = [${packed.join(', ')}]
  run trace${i}Test = start.then(${steps.length}.reps(n => replay(E${i}[n])))`;
  });
  return `module traces {\n  import accept.* from "./accept"\n${runs.join('\n')}\n}\n`;
}
