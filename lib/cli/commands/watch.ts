import type { Clock, Timer } from '../../core/time/clock.js';
import { EXIT } from '../exit-codes.js';
import { byResource, holdersOf, LOCK_COLUMNS, lockCount, lockToJson, type LockView, modeOf } from '../lock-view.js';
import { fitted, printable, printableJson } from '../printable.js';
import { formatTable } from '../table.js';
import { Screen } from '../terminal.js';
import type { CommandContext } from './context.js';
import { nothingFound } from './list.js';

/** The pause between two listings. */
const INTERVAL_MS = 1_000;

/** Ctrl-C is how `watch` ends. The others are what a shell shows for a process that the signal has ended. */
const EXIT_CODE_AFTER = { SIGINT: EXIT.ok, SIGTERM: 143, SIGHUP: 129 } as const;

/** What `watch` has seen last. */
interface Snapshot {
  /** When it was complete, in milliseconds since 1970. */
  readonly at: number;
  readonly locks: readonly LockView[];
  /** Why the locks could not be listed. `locks` is from before then. */
  readonly error: string | undefined;
}

/** Shows snapshots. */
interface View {
  show(snapshot: Snapshot): void;
  close(): void;
}

/**
 * Shows the locks until Ctrl-C. An outage of Redis does not end it, once it has shown them. Returns the exit code.
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
  let locks: readonly LockView[] | undefined;
  while (!signal.aborted) {
    const snapshot = await unlessAborted(signal, snapshotOf(context, match, locks, signal));
    if (snapshot === undefined) return;
    ({ locks } = snapshot);
    view.show(snapshot);
    await pause(context.clock, signal);
  }
}

async function snapshotOf(
  { admin, clock, messageOf }: CommandContext,
  match: string | undefined,
  before: readonly LockView[] | undefined,
  signal: AbortSignal,
): Promise<Snapshot> {
  const locks: LockView[] = [];
  try {
    for await (const lock of admin.list(match)) {
      if (signal.aborted) break;
      locks.push(lock);
    }
    return { at: clock.wallTime(), locks: locks.toSorted(byResource), error: undefined };
  } catch (error) {
    // What is wrong from the beginning does not pass.
    if (before === undefined) throw error;
    return { at: clock.wallTime(), locks: before, error: messageOf(error) };
  }
}

async function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  let timer: Timer | undefined;
  const over = new Promise<void>((resolve) => (timer = clock.schedule(INTERVAL_MS, resolve)));
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
  if (context.json) return jsonView(context);
  return context.terminal.stdout.isTTY === true ? screenView(context, match) : changesView(context);
}

function jsonView({ terminal }: CommandContext): View {
  return {
    show({ at, locks, error }) {
      const snapshot = { at: new Date(at).toISOString(), error: error ?? null, locks: locks.map(lockToJson) };
      terminal.stdout.write(`${printableJson(snapshot)}\n`);
    },
    close: () => undefined,
  };
}

/** Prints a line for each lock that is new, has changed or is free now. */
function changesView({ terminal, shown }: CommandContext): View {
  let known = new Map<string, string>();
  let lastError: string | undefined;
  return {
    show({ at, locks, error }) {
      const print = (line: string): void => void terminal.stdout.write(`${new Date(at).toISOString()} ${line}\n`);
      if (error !== lastError) print(error === undefined ? `${printable(shown)} can be used again` : error);
      lastError = error;
      const now = new Map(locks.map((each) => [each.lock.resource, summaryOf(each)]));
      for (const [resource, summary] of now) {
        if (known.get(resource) !== summary) print(`${printable(resource)} ${summary}`);
      }
      for (const resource of known.keys()) if (!now.has(resource)) print(`${printable(resource)} free`);
      known = now;
    },
    close: () => undefined,
  };
}

function summaryOf({ lock }: LockView): string {
  const token = lock.fencingToken === undefined ? '' : `, token ${lock.fencingToken}`;
  const waiting = lock.waiting.length === 0 ? '' : `, ${lock.waiting.length} waiting`;
  return lock.isHeld ? `held by ${holdersOf(lock)} (${modeOf(lock)}${token})${waiting}` : `held by nobody${waiting}`;
}

function screenView({ terminal, shown, prefix }: CommandContext, match: string | undefined): View {
  const screen = new Screen(terminal.stdout, terminal);
  return {
    show({ at, locks, error }) {
      const { columns, rows } = screen.size;
      const waiting = locks.reduce((sum, { lock }) => sum + lock.waiting.length, 0);
      const time = new Date(at).toTimeString().slice(0, 8);
      const head = `${time}  ${lockCount(locks.length)}, ${waiting} waiting  ${printable(shown)}  (Ctrl-C ends)`;
      const lines = [fitted(head, columns), error === undefined ? '' : fitted(error, columns)];
      if (locks.length === 0) lines.push(fitted(nothingFound(prefix, match), columns));
      else lines.push(...rowsFor(locks, columns, rows - lines.length));
      screen.draw(lines);
    },
    close: () => screen.close(),
  };
}

/** Returns the lines of the table that fit, and how many locks do not. */
function rowsFor(locks: readonly LockView[], columns: number, rows: number): string[] {
  if (locks.length + 1 <= rows) return formatTable(locks, LOCK_COLUMNS, columns);
  const shown = Math.max(0, rows - 2);
  const rest = `… and ${locks.length - shown} more: narrow them down by --match, or use list`;
  return [...formatTable(locks.slice(0, shown), LOCK_COLUMNS, columns), fitted(rest, columns)];
}
