import type { LockInfo } from '../../lock-info.js';
import { EXIT, type ExitCode, usageError } from '../exit-codes.js';
import { holdersOf, lockToJson, modeOf } from '../lock-view.js';
import { formatDuration } from '../duration.js';
import { printable, printableJson } from '../printable.js';
import type { CommandContext } from './context.js';

/** What is to be released. */
export interface ReleaseArguments {
  readonly resource: string;
  readonly ifToken: number | undefined;
  /** Whether to release without a confirmation. */
  readonly yes: boolean;
}

/**
 * Releases a lock by force. Without `yes` it shows the holder and requests a confirmation. It releases only the
 * hold that it found.
 *
 * @throws CliError without `yes` if nobody can be asked.
 */
export async function release(context: CommandContext, args: ReleaseArguments): Promise<ExitCode> {
  const { admin, terminal } = context;
  const { resource, ifToken, yes } = args;
  if (!yes && !terminal.isInteractive) {
    throw usageError('release asks for confirmation, but the input is not a terminal. Pass --yes to skip it.');
  }
  const lock = await admin.inspect(resource);
  const why = reasonAgainst(lock, ifToken, admin.keyOf(resource));
  if (lock === null || why !== undefined) return report(context, resource, lock, why);
  if (!yes && !(await isConfirmed(context, lock))) return report(context, resource, lock, 'not confirmed');
  const released = !(await isExclusiveNow(context, lock)) && (await admin.release(resource, lock.fencingToken));
  return report(context, resource, lock, released ? undefined : 'the hold ended before the release');
}

/** Returns whether a lock that was shared is held exclusively by now. Nobody has looked at that hold. */
async function isExclusiveNow({ admin }: CommandContext, lock: LockInfo): Promise<boolean> {
  if (lock.fencingToken !== undefined) return false;
  return (await admin.inspect(lock.resource))?.mode === 'exclusive';
}

/** Returns why there is nothing to release. */
function reasonAgainst(lock: LockInfo | null, ifToken: number | undefined, key: string): string | undefined {
  if (lock === null) return `nobody holds it. Its key is ${printable(key)}`;
  if (!lock.isHeld) return 'nobody holds it, and others wait for it';
  if (ifToken === undefined || lock.fencingToken === ifToken) return undefined;
  const token = lock.fencingToken === undefined ? 'its hold has no token' : `its token is ${lock.fencingToken}`;
  return `${token}, not ${ifToken}`;
}

async function isConfirmed({ terminal }: CommandContext, lock: LockInfo): Promise<boolean> {
  const { heldForMs } = lock;
  const held = heldForMs === undefined ? 'is held' : 'has been held';
  const since = heldForMs === undefined ? '' : ` for ${formatDuration(heldForMs)}`;
  const question =
    `${printable(lock.resource)} ${held} by ${holdersOf(lock)}${since} (${modeOf(lock)}). ${waitersOf(lock)}\n` +
    'The work of the holder may still be running. Release it by force? [y/N] ';
  const reply = await terminal.ask(question);
  if (reply === undefined) terminal.stderr.write('\n');
  return /^\s*y(?:es)?\s*$/i.test(reply ?? '');
}

function waitersOf({ waiting: { length } }: LockInfo): string {
  if (length === 0) return 'Nobody waits for it.';
  return length === 1 ? '1 instance waits for it.' : `${length} instances wait for it.`;
}

/** Prints the result. `why` is the reason why nothing was released. */
function report(
  { terminal, json }: CommandContext,
  resource: string,
  lock: LockInfo | null,
  why: string | undefined,
): ExitCode {
  const released = why === undefined;
  if (json) {
    const shown = { resource, released, reason: why ?? null, lock: lock && lockToJson(lock) };
    terminal.stdout.write(`${printableJson(shown)}\n`);
  } else if (released && lock !== null) {
    terminal.stdout.write(`${printable(resource)} was released. ${holdersOf(lock)} held it.\n`);
  } else terminal.stderr.write(`${printable(resource)} was not released: ${why}.\n`);
  return released ? EXIT.ok : EXIT.notFound;
}
