import { nameOfWork, shortened } from '../common/format-value.js';
import type { LockHolder, LockInfo } from '../lock-info.js';
import { printable } from './printable.js';

type Column = readonly [title: string, text: (lock: LockInfo) => string];

const NONE = '-';
const DONE = 'done: nobody holds it, and its work is not due yet';

/** The columns of `list`. */
export const LOCK_COLUMNS: readonly Column[] = [
  ['RESOURCE', ({ resource }) => printable(resource)],
  ['MODE', modeOf],
  ['HOLDER', holdersOf],
  ['HELD FOR', ({ heldForMs }) => (heldForMs === undefined ? NONE : formatDuration(heldForMs))],
  ['LEASE', ({ isHeld, expiresInMs }) => (isHeld ? formatDuration(expiresInMs) : NONE)],
  ['TOKEN', ({ fencingToken }) => String(fencingToken ?? NONE)],
  ['WAITING', ({ waiting }) => String(waiting.length)],
];

/** A longer text moves the rest of its own line only. */
const WIDEST_COLUMN = 40;

/** Returns a table of the locks, sorted by resource, with a line of titles. */
export function lockTable(locks: readonly LockInfo[]): string {
  const sorted = locks.toSorted((one, other) => (one.resource < other.resource ? -1 : 1));
  const rows = [LOCK_COLUMNS.map(([title]) => title)];
  for (const lock of sorted) rows.push(LOCK_COLUMNS.map(([, text]) => text(lock)));
  const widths = LOCK_COLUMNS.map((_, i) => {
    return rows.reduce((widest, cells) => Math.max(widest, Math.min(cells[i].length, WIDEST_COLUMN)), 0);
  });
  const padded = (text: string, i: number): string => text.padEnd(widths[i]);
  return rows.map((cells) => `${cells.map(padded).join('  ').trimEnd()}\n`).join('');
}

const UNITS = { ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns a time as people read it: `850 ms`, `4.2 s`, `3.1 min`, `2.5 h`, `3.2 d`. */
export function formatDuration(ms: number): string {
  if (ms === Infinity) return 'unlimited';
  const [unit, size] = Object.entries(UNITS).findLast(([, each]) => ms >= each) ?? ['ms', 1];
  return `${(ms / size).toFixed(unit === 'ms' ? 0 : 1)} ${unit}`;
}

/** Returns the name of an instance: its identity, or its id. The value of another system may be long. */
function nameOf(identity: string | undefined, id: string, wireVersion?: number): string {
  const name = printable(shortened(identity ?? id));
  return wireVersion === undefined ? name : `${name} (another version: wire ${wireVersion})`;
}

/** Returns the holders in a few words: `api-1`, `api-1 and 2 others`, `nobody`. */
export function holdersOf(lock: LockInfo): string {
  if (!lock.isHeld) return 'nobody';
  const first = nameOf(lock.identity, lock.holder, lock.wireVersion) + printable(nameOfWork(lock));
  const { length } = lock.others;
  if (length === 0) return first;
  return `${first} and ${length} ${length === 1 ? 'other' : 'others'}`;
}

/** Returns how a lock is held: `exclusive`, `shared`, `2 of 5 permits`, or `done`. */
export function modeOf(lock: LockInfo): string {
  if (!lock.isHeld) return NONE;
  if (lock.isDone === true) return 'done';
  return lock.permits === undefined ? lock.mode : `${lock.others.length + 1} of ${lock.permits} permits`;
}

/** Returns the lines that describe one lock. */
export function describeLock(lock: LockInfo): string {
  const { resource, key, waiting, heldForMs, fencingToken } = lock;
  const lines = [printable(resource), field('key', printable(key))];
  if (lock.isHeld) {
    const { isDone = false } = lock;
    lines.push(field('state', isDone ? DONE : `held, ${modeOf(lock)}`));
    for (const holder of [lock, ...lock.others]) lines.push(...describeHolder(holder, isDone));
    if (heldForMs !== undefined) lines.push(field(isDone ? 'since' : 'held for', formatDuration(heldForMs)));
    if (fencingToken !== undefined) lines.push(field('token', String(fencingToken)));
  } else lines.push(field('state', 'nobody holds it, and others wait'));
  lines.push(field('waiting', waiting.length === 0 ? 'nobody' : String(waiting.length)));
  for (const [i, { identity, waiter, wireVersion, mode, permits }] of waiting.entries()) {
    const wanted = permits === undefined ? mode : `one of ${permits} permits`;
    lines.push(field('', `${i + 1}. ${nameOf(identity, waiter, wireVersion)}, ${wanted}`));
  }
  return `${lines.join('\n')}\n`;
}

function describeHolder(
  { holder, identity, expiresInMs, wireVersion, method, label }: LockHolder,
  isDone: boolean,
): string[] {
  const lease = expiresInMs === Infinity ? 'without end: another system wrote the key' : formatDuration(expiresInMs);
  const id = identity === undefined ? [] : [field('', printable(holder))];
  const work = printable(nameOfWork({ method, label }));
  const name = nameOf(identity, holder, wireVersion) + work;
  return [field(isDone ? 'done by' : 'holder', name), ...id, field(isDone ? 'done for' : 'lease', lease)];
}

function field(label: string, text: string): string {
  return `  ${label.padEnd(10)}${text}`;
}
