import { formatDuration } from '../duration.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { byResource, LOCK_COLUMNS, lockCount, lockToJson, type LockView } from '../lock-view.js';
import { printable, printableJson } from '../printable.js';
import { formatTable } from '../table.js';
import { columnsOf, Progress } from '../terminal.js';
import type { CommandContext } from './context.js';

/** After this time the progress is shown, and this often. */
const PROGRESS_MS = 500;

/** Prints the locks: a table, or one object a line as they are found. */
export async function list(context: CommandContext, match: string | undefined): Promise<ExitCode> {
  const { admin, terminal, json, prefix } = context;
  const { stdout, stderr } = terminal;
  const found: LockView[] = [];
  const progress = progressOf(context, () => found.length);
  try {
    for await (const view of admin.list(match)) {
      found.push(view);
      if (json) stdout.write(`${printableJson(lockToJson(view))}\n`);
    }
  } finally {
    progress.stop();
  }
  if (json) return EXIT.ok;
  if (found.length === 0) stderr.write(`${nothingFound(prefix, match)}\n`);
  else stdout.write(`${formatTable(found.toSorted(byResource), LOCK_COLUMNS, columnsOf(stdout)).join('\n')}\n`);
  return EXIT.ok;
}

/** Returns the line for an empty list. */
export function nothingFound(prefix: string, match: string | undefined): string {
  const matching = match === undefined ? '' : ` and matches ${printable(match)}`;
  return `No lock is held or waited for that has the prefix "${printable(prefix)}"${matching}.`;
}

function progressOf({ terminal, clock, json }: CommandContext, count: () => number): { stop(): void } {
  // On one terminal, the objects and the progress would write into each other's lines.
  if (json && terminal.stdout.isTTY === true) return { stop: () => undefined };
  const progress = new Progress(terminal.stderr);
  const startedAt = clock.now();
  const show = (): void => {
    progress.show(`Scanning for ${formatDuration(clock.now() - startedAt)}, ${lockCount(count())} found`);
    timer = clock.schedule(PROGRESS_MS, show, true);
  };
  let timer = clock.schedule(PROGRESS_MS, show, true);
  return {
    stop() {
      timer.cancel();
      progress.clear();
    },
  };
}
