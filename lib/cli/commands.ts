import type { LockInfo } from '../lock-info.js';
import type { GivenOptions } from './arguments.js';
import { CliError, EXIT, type ExitCode } from './cli-error.js';
import type { LockAdmin } from './lock-admin.js';
import { describeLock, formatDuration, holdersOf, lockTable, modeOf } from './lock-view.js';
import { printable, printableJson } from './printable.js';
import type { Terminal } from './terminal.js';

/** What a command works with. */
export interface CommandContext {
  readonly admin: Pick<LockAdmin, 'keyOf' | 'list' | 'inspect' | 'release'>;
  readonly terminal: Terminal;
  readonly options: GivenOptions;
  /** The argument of `inspect` and `release`. Otherwise empty. */
  readonly resource: string;
}

/** Prints the locks: a table or, with --json, one object a line as each is found. */
export async function list({ admin, terminal, options }: CommandContext): Promise<ExitCode> {
  const { match, json, prefix, 'hash-tag': hashTag } = options;
  const locks: LockInfo[] = [];
  for await (const lock of admin.list(match)) {
    if (json) await terminal.print(printableJson(lock));
    else locks.push(lock);
  }
  if (locks.length > 0) await terminal.print(lockTable(locks));
  else if (!json) {
    const matching = match === undefined ? '' : ` that matches ${printable(match)}`;
    const where = `under --prefix "${printable(prefix)}" and --hash-tag ${hashTag}`;
    terminal.complain(`No lock${matching} is held or awaited ${where}.`);
  }
  return EXIT.ok;
}

/** Prints one lock. The exit code says whether somebody holds it or waits for it. */
export async function inspect({ admin, terminal, options, resource }: CommandContext): Promise<ExitCode> {
  const lock = await admin.inspect(resource);
  if (options.json) await terminal.print(printableJson(lock));
  else if (lock !== null) await terminal.print(describeLock(lock));
  // The key shows whether the prefix and the hash tag are those of the application.
  else terminal.complain(`Nobody holds ${printable(resource)} or waits for it. ${itsKey(admin, resource)}.`);
  return lock === null ? EXIT.notFound : EXIT.ok;
}

/**
 * Releases a lock by force. Without --yes it shows the holder and requests a confirmation. It releases only the hold
 * that it found.
 *
 * @throws CliError without --yes if nobody can be asked.
 */
export async function release(context: CommandContext): Promise<ExitCode> {
  const { admin, terminal, options, resource } = context;
  if (!options.yes && !terminal.isInteractive) {
    const message = 'release asks for confirmation, but the input is not a terminal. Pass --yes to skip it.';
    throw new CliError(EXIT.usage, message);
  }
  const lock = await admin.inspect(resource);
  const why = await releaseFound(context, lock);
  const released = why === undefined;
  if (options.json) await terminal.print(printableJson({ resource, released, reason: why, lock }));
  else if (!released) terminal.complain(`${printable(resource)} was not released: ${why}.`);
  else await terminal.print(`${printable(resource)} was released. ${holdersOf(lock as LockInfo)} held it.\n`);
  return released ? EXIT.ok : EXIT.notFound;
}

/** Releases the lock that was found. Returns why it was not released. */
async function releaseFound(context: CommandContext, lock: LockInfo | null): Promise<string | undefined> {
  const { admin, options, resource } = context;
  if (lock === null) return `nobody holds it. ${itsKey(admin, resource)}`;
  if (!lock.isHeld) return 'nobody holds it, and others wait for it';
  const { fencingToken, mode } = lock;
  const wanted = options['if-token'];
  if (wanted !== undefined && fencingToken !== Number(wanted)) {
    return `its token is ${fencingToken ?? 'unknown'}, not ${wanted}`;
  }
  if (!options.yes && !(await isConfirmed(context, lock))) return 'not confirmed';
  // Shared holds have no token. The user has not seen an exclusive hold that came after them.
  const isFollowed = mode === 'shared' && (await admin.inspect(resource))?.mode === 'exclusive';
  const isReleased = !isFollowed && (await admin.release(resource, fencingToken));
  return isReleased ? undefined : 'the hold ended before the release';
}

async function isConfirmed({ terminal }: CommandContext, lock: LockInfo): Promise<boolean> {
  const { resource, heldForMs, waiting } = lock;
  const held = heldForMs === undefined ? '' : ` for ${formatDuration(heldForMs)}`;
  const isDone = lock.isDone === true;
  const state = isDone
    ? `done by ${holdersOf(lock)} for another ${formatDuration(lock.expiresInMs)}`
    : `held by ${holdersOf(lock)}${held} (${modeOf(lock)})`;
  const risk = isDone ? 'The next call does the work again.' : 'The work of the holder may still be running.';
  const reply = await terminal.ask(
    `${printable(resource)} is ${state}. Waiting: ${waiting.length}.\n${risk} Release it by force? [y/N] `,
  );
  return /^\s*y(?:es)?\s*$/i.test(reply);
}

function itsKey({ keyOf }: CommandContext['admin'], resource: string): string {
  return `Its key is ${printable(keyOf(resource))}`;
}
