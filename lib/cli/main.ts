import { messageOf } from '../common/errors.js';
import { VERSION } from '../common/version.js';
import { EXIT } from './cli-error.js';
import { run } from './run.js';
import { processTerminal } from './terminal.js';

/** Runs the command of this process's arguments and ends the process with its exit code. */
export async function main(): Promise<void> {
  const { stdout, stderr, argv, env } = process;
  for (const output of [stdout, stderr]) output.on('error', onOutputError);
  const code = await run(argv.slice(2), { version: VERSION, env, terminal: processTerminal });
  // An error that was written to a pipe may still be on its way.
  await new Promise((resolve) => stderr.write('', resolve));
  // A lookup of a host name would keep the process for longer than the command waits for it.
  process.exit(code);
}

/** The reader of a pipe may end first, as `head` does. Other errors are those of a disk. */
function onOutputError(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  process.stderr.write(`error: the output cannot be written: ${messageOf(error)}\n`);
  process.exit(EXIT.internal);
}
