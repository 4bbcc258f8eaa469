import { shortened } from '../core/format-value.js';
import type { LockHolder, LockInfo, LockSharing } from '../lock-info.js';
import { formatDuration } from './duration.js';
import { printable } from './printable.js';
import type { Column } from './table.js';

const NONE = '-';

/** The columns of `list` and `watch`. */
export const LOCK_COLUMNS: readonly Column<LockInfo>[] = [
  { title: 'RESOURCE', text: ({ resource }) => printable(resource), isFlexible: true },
  { title: 'MODE', text: modeOf },
  { title: 'HOLDER', text: holdersOf, isFlexible: true },
  {
    title: 'HELD FOR',
    text: ({ heldForMs }) => (heldForMs === undefined ? NONE : formatDuration(heldForMs)),
    align: 'right',
  },
  { title: 'LEASE', text: ({ isHeld, expiresInMs }) => (isHeld ? formatDuration(expiresInMs) : NONE), align: 'right' },
  { title: 'TOKEN', text: ({ fencingToken }) => String(fencingToken ?? NONE), align: 'right' },
  { title: 'WAITING', text: ({ waiting }) => String(waiting.length), align: 'right' },
];

/** Compares by resource, for sorting. */
export function byResource(one: LockInfo, other: LockInfo): number {
  if (one.resource === other.resource) return 0;
  return one.resource < other.resource ? -1 : 1;
}

/** Returns a number of locks in words: `1 lock`, `5 locks`. */
export function lockCount(count: number): string {
  return `${count} ${count === 1 ? 'lock' : 'locks'}`;
}

/** Returns the name of an instance: its identity, or its id. The value of another system may be long. */
function nameOf(identity: string | undefined, id: string, wireVersion?: number): string {
  const name = printable(shortened(identity ?? id));
  return wireVersion === undefined ? name : `${name} (another version: wire ${wireVersion})`;
}

/** Returns the holders in a few words: `api-1`, `api-1 and 2 others`, `nobody`. */
export function holdersOf(lock: LockInfo): string {
  if (!lock.isHeld) return 'nobody';
  const first = nameOf(lock.identity, lock.holder, lock.wireVersion);
  const { length } = lock.others;
  if (length === 0) return first;
  return `${first} and ${length} ${length === 1 ? 'other' : 'others'}`;
}

/** Returns how a lock is held: `exclusive`, `shared`, `2 of 5 permits`. */
export function modeOf(lock: LockInfo): string {
  if (!lock.isHeld) return NONE;
  return lock.permits === undefined ? lock.mode : `${lock.others.length + 1} of ${lock.permits} permits`;
}

/** Returns the lines that describe one lock. */
export function describeLock(lock: LockInfo): string[] {
  const lines = [
    printable(lock.resource),
    field('key', printable(lock.key)),
    field('state', lock.isHeld ? `held, ${modeOf(lock)}` : 'nobody holds it, and others wait'),
  ];
  if (lock.isHeld) {
    lines.push(...describeHolder('holder', lock));
    if (lock.heldForMs !== undefined) lines.push(field('held for', formatDuration(lock.heldForMs)));
    if (lock.fencingToken !== undefined) lines.push(field('token', String(lock.fencingToken)));
    for (const other of lock.others) lines.push(...describeHolder('holder', other));
  }
  lines.push(field('waiting', lock.waiting.length === 0 ? 'nobody' : String(lock.waiting.length)));
  for (const [i, waiter] of lock.waiting.entries()) {
    const name = nameOf(waiter.identity, waiter.waiter, waiter.wireVersion);
    lines.push(`${' '.repeat(12)}${i + 1}. ${name}, ${wantedMode(waiter)}`);
  }
  return lines;
}

/** Returns what `--json` prints for a lock. Unknown values are null, and so is a lease without end. */
export function lockToJson(lock: LockInfo): object {
  const sharing = ({ mode, permits }: Partial<LockSharing>): object => ({
    mode: mode ?? null,
    permits: permits ?? null,
  });
  const holder = (each: LockHolder): object => ({
    holder: each.holder,
    identity: each.identity ?? null,
    expiresInMs: finite(each.expiresInMs),
    fencingToken: each.fencingToken ?? null,
    ...wireOf(each),
  });
  return {
    resource: lock.resource,
    key: lock.key,
    isHeld: lock.isHeld,
    ...sharing(lock),
    ...(lock.isHeld ? holder(lock) : { holder: null, identity: null, expiresInMs: 0, fencingToken: null }),
    heldForMs: finite(lock.heldForMs),
    others: lock.others.map(holder),
    waiting: lock.waiting.map((waiter) => {
      return { waiter: waiter.waiter, identity: waiter.identity ?? null, ...sharing(waiter), ...wireOf(waiter) };
    }),
  };
}

/** Returns the wire version of an instance as a field, or no field if it is the same as that of this program. */
function wireOf({ wireVersion }: { readonly wireVersion?: number | undefined }): object {
  return wireVersion === undefined ? {} : { wireVersion };
}

function finite(ms: number | undefined): number | null {
  return ms === undefined || ms === Infinity ? null : Math.round(ms);
}

function describeHolder(label: string, { holder, identity, expiresInMs, wireVersion }: LockHolder): string[] {
  const lines = [field(label, nameOf(identity, holder, wireVersion))];
  if (identity !== undefined) lines.push(field('', printable(holder)));
  const lease = expiresInMs === Infinity ? 'without end: another system wrote the key' : formatDuration(expiresInMs);
  lines.push(field('lease', lease));
  return lines;
}

function wantedMode({ mode, permits }: LockSharing): string {
  return permits === undefined ? mode : `one of ${permits} permits`;
}

function field(label: string, text: string): string {
  return `  ${label.padEnd(10)}${text}`;
}
