// The library before the requests of a tick travelled together. Targets of the form "twice today's rate" compare with
// it in the same run. It is built from the history of this clone.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const FILES = ['lib', 'tsconfig.json', 'tsconfig.build.json'];

export const BEFORE_COMMIT = 'a6fb66f';

/** Builds it, if it is not built yet. Returns the folder. Throws an error with the reason if the commit is missing. */
export function buildBefore() {
  const folder = join(ROOT, '.cache', 'bench-before', BEFORE_COMMIT);
  const built = join(folder, '.cache', 'build');
  const marker = join(folder, 'complete');
  if (existsSync(marker)) return built;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const archive = execFileSync('git', ['archive', BEFORE_COMMIT, ...FILES], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: folder, stdio: 'pipe' });
  mkdirSync(marker, { recursive: true });
  return built;
}
