import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = join(__dirname, '../..');
const lib = (name: string): string => pathToFileURL(join(root, 'lib', name)).href;

/** What a script may use: everything comes from the sources. */
const PRELUDE = `
  import { Redis } from 'ioredis';
  import { LockRuntime } from '${lib('lock-runtime.ts')}';
  import { memory } from '${lib('stores/memory/memory.store.ts')}';
  import { silent } from '${pathToFileURL(join(__dirname, 'silent-logger.ts')).href}';
  const timers = new Map();
  const [start, stop] = [setTimeout, clearTimeout];
  globalThis.setTimeout = Object.assign((run, ms, ...args) => {
    const fire = () => (timers.delete(timer), run(...args));
    const timer = start(fire, ms);
    timers.set(timer, ms);
    return timer;
  }, start);
  globalThis.clearTimeout = (timer) => (timers.delete(timer), stop(timer));
`;

/** Appended to a script, which has nothing left to do by then. */
const EPILOGUE = `
  const lasting = [...timers].filter(([timer]) => timer.hasRef()).map(([, ms]) => ms);
  process.stdout.write(String(Math.max(0, ...lasting)));
`;

/** The library cuts a connection of ioredis that has not ended by then. */
export const CUT_MS = 50;

/** A process that lives for longer is kept alive. */
const HANGS_AFTER_MS = 120_000;

/**
 * Runs a script in a process of its own, which must end by itself. Returns the milliseconds of the longest timer that
 * keeps the process alive when the script has ended, or 0.
 */
export async function longestTimerAtEndOf(script: string): Promise<number> {
  const hooks = pathToFileURL(join(__dirname, 'typescript-hooks.mjs')).href;
  const code = PRELUDE + script + EPILOGUE;
  const flags = ['--import', hooks, '--input-type=module', '--eval', code];
  const limits = { timeout: HANGS_AFTER_MS, killSignal: 'SIGKILL' } as const;
  const { stdout } = await run(process.execPath, flags, { cwd: root, ...limits });
  return Number(stdout);
}
