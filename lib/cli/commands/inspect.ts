import { EXIT, type ExitCode } from '../exit-codes.js';
import { describeLock, lockToJson } from '../lock-view.js';
import { printable, printableJson } from '../printable.js';
import type { CommandContext } from './context.js';

/** Prints one lock. The exit code says whether somebody holds it or waits for it. */
export async function inspect({ admin, terminal, json }: CommandContext, resource: string): Promise<ExitCode> {
  const view = await admin.inspect(resource);
  if (view !== null) {
    terminal.stdout.write(json ? `${printableJson(lockToJson(view))}\n` : `${describeLock(view).join('\n')}\n`);
    return EXIT.ok;
  }
  if (json) terminal.stdout.write('null\n');
  else terminal.stderr.write(`${printable(resource)} is free, and nobody waits for it.\n`);
  return EXIT.notFound;
}
