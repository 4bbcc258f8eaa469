import type { KeyOptions } from '../../core/keys/resource-key.js';
import type { LockInfo } from '../../lock-info.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { byResource, LOCK_COLUMNS, lockToJson } from '../lock-view.js';
import { printable, printableJson } from '../printable.js';
import { reportProgress } from '../progress.js';
import { formatTable } from '../table.js';
import { columnsOf, Progress, writeTo } from '../terminal.js';
import type { CommandContext } from './context.js';

/** Prints the locks: a table or, with --json, one object per line as each is found. */
export async function list(context: CommandContext, match: string | undefined): Promise<ExitCode> {
  const { admin, terminal, json, keys } = context;
  const { stdout, stderr } = terminal;
  const locks: LockInfo[] = [];
  let found = 0;
  let otherKey: string | undefined;
  const stopProgress = showProgress(context, () => found);
  try {
    for await (const lock of admin.list(match, (key) => (otherKey ??= key))) {
      found += 1;
      if (json) await writeTo(stdout, `${printableJson(lockToJson(lock))}\n`);
      else locks.push(lock);
    }
  } finally {
    stopProgress();
  }
  if (locks.length > 0) {
    await writeTo(stdout, `${formatTable(locks.toSorted(byResource), LOCK_COLUMNS, columnsOf(stdout)).join('\n')}\n`);
  }
  if (found === 0 && !json) stderr.write(`${nothingFound(keys, match)}\n`);
  if (otherKey !== undefined) stderr.write(`${otherKeysFound(otherKey)}\n`);
  return EXIT.ok;
}

/** Returns the line for an empty list. */
export function nothingFound({ prefix, hashTag }: KeyOptions, match: string | undefined): string {
  const matching = match === undefined ? '' : ` that matches ${printable(match)}`;
  return `No lock${matching} is held or awaited under --prefix "${printable(prefix)}" and --hash-tag ${hashTag}.`;
}

function otherKeysFound(key: string): string {
  return (
    `Keys such as ${printable(key)} look like locks but are not listed. ` +
    "Check that --prefix, --hash-tag and --key-prefix match the application's settings."
  );
}

function showProgress({ terminal, clock, json }: CommandContext, found: () => number): () => void {
  // On one terminal, the objects and the progress would overwrite each other's lines.
  if (json && terminal.stdout.isTTY === true) return () => undefined;
  const progress = new Progress(terminal.stderr);
  const stop = reportProgress(clock, found, (line) => progress.show(line));
  return () => {
    stop();
    progress.clear();
  };
}
