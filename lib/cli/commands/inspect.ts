import { EXIT, type ExitCode } from '../exit-codes.js';
import { describeLock, lockToJson } from '../lock-view.js';
import { printable, printableJson } from '../printable.js';
import type { CommandContext } from './context.js';

/** Prints one lock. The exit code says whether somebody holds it or waits for it. */
export async function inspect({ admin, terminal, json }: CommandContext, resource: string): Promise<ExitCode> {
  const lock = await admin.inspect(resource);
  if (lock !== null) {
    terminal.stdout.write(json ? `${printableJson(lockToJson(lock))}\n` : `${describeLock(lock).join('\n')}\n`);
    return EXIT.ok;
  }
  // The key shows whether the prefix and the hash tag are those of the application.
  const free = `Nobody holds ${printable(resource)} or waits for it. Its key is ${printable(admin.keyOf(resource))}.\n`;
  if (json) terminal.stdout.write('null\n');
  else terminal.stderr.write(free);
  return EXIT.notFound;
}
