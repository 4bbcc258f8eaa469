import { execFile, spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { cacheFolder } from '../cache-folder.ts';

const SOURCE = fileURLToPath(new URL('wall-clock.c', import.meta.url));

/** Returns why the wall clock of a process cannot be set here. Returns undefined if it can. */
function obstacle(): string | undefined {
  if (process.platform !== 'linux') return `on ${process.platform}`;
  return spawnSync('gcc', ['--version']).status === 0 ? undefined : 'for want of gcc';
}

/** Returns whether wall clocks can be set. Otherwise prints what was not tested, or throws in CI. */
export function canSetWallClocks(tested: string): boolean {
  const why = obstacle();
  if (why === undefined) return true;
  if (process.env['CI'] === 'true') throw new Error(`not tested ${why}: ${tested}`);
  process.stderr.write(`Not tested ${why}: ${tested}\n`);
  return false;
}

/** The clocks of servers cannot be set here. `runSuite` prints it and continues to the next file. */
export class NotTestedHereError extends Error {}

/**
 * Returns if wall clocks can be set.
 *
 * @throws NotTestedHereError if they cannot. The file that loads this has no tests then.
 */
export function needWallClocks(): void {
  const why = obstacle();
  if (why === undefined) return;
  if (process.env['CI'] === 'true') throw new Error(`tests with the clock of a server cannot run ${why}`);
  throw new NotTestedHereError(why);
}

/** Returns the path of the library. Compiles it once for each version of its source. */
export async function wallClockLibrary(): Promise<string> {
  const source = readFileSync(SOURCE);
  const hash = createHash('sha256').update(source).digest('hex').slice(0, 16);
  const library = join(cacheFolder(process.env), `wall-clock-${hash}-${process.arch}.so`);
  if (existsSync(library)) return library;
  // Others may compile it at the same time, and see all of the library or nothing.
  const unfinished = `${library}.${randomUUID()}`;
  await promisify(execFile)('gcc', ['-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', unfinished, SOURCE, '-ldl']);
  renameSync(unfinished, library);
  return library;
}
