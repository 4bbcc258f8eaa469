import type { Clock, Timer } from '../../core/time/clock.js';
import type { LockInfo } from '../../lock-info.js';
import { EXIT } from '../exit-codes.js';
import { byResource, holdersOf, LOCK_COLUMNS, lockCount, lockToJson, modeOf } from '../lock-view.js';
import { fitted, printable, printableJson } from '../printable.js';
import { reportProgress } from '../progress.js';
import { formatTable } from '../table.js';
import { Progress, Screen, writeTo } from '../terminal.js';
import type { CommandContext } from './context.js';
import { nothingFound } from './list.js';

/** The pause between two listings. After a listing that took longer, the pause is as long as the listing. */
const INTERVAL_MS = 1_000;

/** Ctrl-C is how `watch` ends. The others are what a shell shows for a process that the signal ended. */
const EXIT_CODE_AFTER = { SIGINT: EXIT.ok, SIGTERM: 143, SIGHUP: 129 } as const;

/** What `watch` saw last. */
interface Snapshot {
  /** When it was complete, in milliseconds since 1970. */
  readonly at: number;
  readonly locks: readonly LockInfo[];
  /** Why the locks could not be listed. `locks` is then from the last listing that succeeded. */
  readonly error: string | undefined;
}

/** Shows snapshots. */
interface View {
  /** Shows how far the first listing has got. */
  showProgress(line: string): void;
  show(snapshot: Snapshot): Promise<void> | void;
  close(): void;
}

/**
 * Shows the locks until Ctrl-C. A Redis outage does not end the command once it has shown them. Returns the exit code.
 *
 * @throws the error of the first listing.
 */
export async function watch(context: CommandContext, match: string | undefined): Promise<number> {
  const { terminal } = context;
  const interrupted = new AbortController();
  let exitCode: number = EXIT.ok;
  const stopListening = terminal.onInterrupt((signal) => {
    exitCode = EXIT_CODE_AFTER[signal];
    interrupted.abort();
  });
  const view = viewOf(context, match);
  try {
    await follow(context, match, view, interrupted.signal);
  } finally {
    view.close();
    stopListening();
  }
  return exitCode;
}

async function follow(
  context: CommandContext,
  match: string | undefined,
  view: View,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = context;
  let locks: readonly LockInfo[] | undefined;
  const showProgress = (line: string): void => {
    if (locks === undefined && !signal.aborted) view.showProgress(line);
  };
  while (!signal.aborted) {
    const startedAt = clock.now();
    const snapshot = await unlessAborted(signal, snapshotOf(context, match, locks, signal, showProgress));
    if (snapshot === undefined) return;
    ({ locks } = snapshot);
    // A reader that has stopped reading must not keep the command from ending.
    await unlessAborted(signal, Promise.resolve(view.show(snapshot)));
    await pause(clock, signal, Math.max(INTERVAL_MS, clock.now() - startedAt));
  }
}

async function snapshotOf(
  { admin, clock, messageOf }: CommandContext,
  match: string | undefined,
  before: readonly LockInfo[] | undefined,
  signal: AbortSignal,
  showProgress: (line: string) => void,
): Promise<Snapshot> {
  const locks: LockInfo[] = [];
  const stopProgress = reportProgress(clock, () => locks.length, showProgress);
  try {
    for await (const lock of admin.list(match)) {
      if (signal.aborted) break;
      locks.push(lock);
    }
    return { at: clock.wallTime(), locks: locks.toSorted(byResource), error: undefined };
  } catch (error) {
    // A problem that exists from the beginning does not go away.
    if (before === undefined) throw error;
    return { at: clock.wallTime(), locks: before, error: messageOf(error) };
  } finally {
    stopProgress();
  }
}

async function pause(clock: Clock, signal: AbortSignal, forMs: number): Promise<void> {
  let timer: Timer | undefined;
  const over = new Promise<void>((resolve) => (timer = clock.schedule(forMs, resolve)));
  await unlessAborted(signal, over);
  timer?.cancel();
}

/** Returns the result, or undefined as soon as the signal aborts. Leaves no listener behind. */
function unlessAborted<T>(signal: AbortSignal, result: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(undefined);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function viewOf(context: CommandContext, match: string | undefined): View {
  if (context.json) return textView(context, jsonOf);
  return context.terminal.stdout.isTTY === true ? screenView(context, match) : textView(context, changesOf(context));
}

/** Prints a text for each snapshot. */
function textView({ terminal }: CommandContext, textOf: (snapshot: Snapshot) => string): View {
  const progress = new Progress(terminal.stderr);
  return {
    showProgress: (line) => progress.show(line),
    show(snapshot) {
      progress.clear();
      return writeTo(terminal.stdout, textOf(snapshot));
    },
    close: () => progress.clear(),
  };
}

function jsonOf({ at, locks, error }: Snapshot): string {
  const snapshot = { at: new Date(at).toISOString(), error: error ?? null, locks: locks.map(lockToJson) };
  return `${printableJson(snapshot)}\n`;
}

/** Returns a function that returns a line for each lock that is new, has changed or is free since the last snapshot. */
function changesOf({ shown }: CommandContext): (snapshot: Snapshot) => string {
  let known = new Map<string, string>();
  let lastError: string | undefined;
  return ({ at, locks, error }) => {
    const lines: string[] = [];
    if (error !== lastError) lines.push(error ?? `${printable(shown)} can be used again`);
    lastError = error;
    const now = new Map(locks.map((lock) => [lock.resource, summaryOf(lock)]));
    for (const [resource, summary] of now) {
      if (known.get(resource) !== summary) lines.push(`${printable(resource)} ${summary}`);
    }
    for (const resource of known.keys()) if (!now.has(resource)) lines.push(`${printable(resource)} free`);
    known = now;
    const time = new Date(at).toISOString();
    return lines.map((line) => `${time} ${line}\n`).join('');
  };
}

function summaryOf(lock: LockInfo): string {
  const token = lock.fencingToken === undefined ? '' : `, token ${lock.fencingToken}`;
  const waiting = lock.waiting.length === 0 ? '' : `, ${lock.waiting.length} waiting`;
  return lock.isHeld ? `held by ${holdersOf(lock)} (${modeOf(lock)}${token})${waiting}` : `held by nobody${waiting}`;
}

function screenView({ terminal, shown, keys }: CommandContext, match: string | undefined): View {
  const screen = new Screen(terminal.stdout, terminal);
  return {
    showProgress: (line) => screen.draw([fitted(line, screen.size.columns)]),
    show({ at, locks, error }) {
      const { columns, rows } = screen.size;
      const waiting = locks.reduce((sum, lock) => sum + lock.waiting.length, 0);
      const time = new Date(at).toTimeString().slice(0, 8);
      const head = `${time}  ${lockCount(locks.length)}, ${waiting} waiting  ${printable(shown)}  (Ctrl-C ends)`;
      const lines = [fitted(head, columns), error === undefined ? '' : fitted(error, columns)];
      if (locks.length === 0) lines.push(fitted(nothingFound(keys, match), columns));
      else lines.push(...rowsFor(locks, columns, rows - lines.length));
      screen.draw(lines);
    },
    close: () => screen.close(),
  };
}

/** Returns the lines of the table that fit, and how many locks do not. */
function rowsFor(locks: readonly LockInfo[], columns: number, rows: number): string[] {
  if (locks.length + 1 <= rows) return formatTable(locks, LOCK_COLUMNS, columns);
  const shown = Math.max(0, rows - 2);
  const rest = `… and ${locks.length - shown} more: narrow them down with --match, or use list`;
  return [...formatTable(locks.slice(0, shown), LOCK_COLUMNS, columns), fitted(rest, columns)];
}
