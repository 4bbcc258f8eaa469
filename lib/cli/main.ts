import { createRequire } from 'node:module';
import { EXIT } from './exit-codes.js';
import { openAdmin } from './open-admin.js';
import { processTerminal } from './process-terminal.js';
import { run } from './run.js';

/** Runs the command of this process's arguments and sets the exit code. */
export async function main(): Promise<void> {
  const { stdout, argv, env } = process;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader of a pipe may end first, as `head` does.
    process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.internal);
  });
  const { version } = createRequire(import.meta.url)('nestjs-redis-lock/package.json') as { version: string };
  // Not `process.exit()`: what was written to a pipe may still be on its way.
  process.exitCode = await run(argv.slice(2), { version, env, terminal: processTerminal, openAdmin });
}
