import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from '../../../test/support/cache-folder.js';

/** A line that the program of this folder prints: what Porcupine says about one key of a history under one model. */
export interface Verdict {
  readonly file: string;
  readonly key: string;
  readonly model: 'lock' | 'tokens' | 'register';
  readonly operations: number;
  /** How many operations the key has. */
  readonly of: number;
  readonly verdict: 'Ok' | 'Illegal' | 'Unknown';
  readonly ms: number;
  /** The last operation of the shortest beginning that is rejected. */
  readonly stuck?: string;
}

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/** Tests and builds the program. Go downloads Porcupine once. Returns a function that judges files. */
export function buildJudge(): (...files: readonly string[]) => readonly Verdict[] {
  if (spawnSync('go', ['version']).status !== 0)
    throw new Error('npm run judge needs Go 1.22 or later, from https://go.dev/dl. Nothing was judged.');
  const program = join(cacheFolder(process.env), 'judge');
  for (const args of [
    ['vet', '.'],
    ['test', '.'],
    ['build', '-o', program, '.'],
  ])
    execFileSync('go', args, { cwd: FOLDER, stdio: ['ignore', 2, 2] });
  return (...files) => {
    const lines = execFileSync(program, files, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    return lines
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Verdict);
  };
}
