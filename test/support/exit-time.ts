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
`;

/** Appended to a script, which has nothing left to do by then. */
const EPILOGUE = `
  const doneAt = performance.now();
  process.on('exit', () => process.stdout.write(String(performance.now() - doneAt)));
`;

/**
 * Returns how many milliseconds a process outlives its script. Kills a process that does not end in time. On a busy
 * machine, it takes seconds to start.
 */
export async function exitTimeOf(script: string, timeoutMs = 20_000): Promise<number> {
  const hooks = pathToFileURL(join(__dirname, 'typescript-hooks.mjs')).href;
  const code = PRELUDE + script + EPILOGUE;
  const flags = ['--import', hooks, '--input-type=module', '--eval', code];
  const { stdout } = await run(process.execPath, flags, { cwd: root, timeout: timeoutMs, killSignal: 'SIGKILL' });
  return Number(stdout);
}
