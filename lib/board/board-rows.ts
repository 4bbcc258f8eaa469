import type { BoardCallers, BoardHolder, BoardLock, BoardWaiter } from './board-source.js';

/** The most locks that the board keeps in memory. They take about 1 kB each. */
export const MOST_LOCKS = 20_000;
/** The most holders and waiters of one lock that the board keeps. It counts the others. */
const MOST_HOLDERS = 10;
const MOST_WAITERS = 20;
/** Longer ids are cut: for a foreign key, the id is its whole value. */
const LONGEST_ID = 300;
/** Two reads of one lease vary with reply latency. Smaller differences are ignored. */
const JITTER_MS = 250;

/** A lock of the board. Times are on the clock of the board, so that a row without changes stays equal. */
export interface Row {
  readonly key: string;
  readonly resource: string;
  readonly family: string;
  readonly mode: 'exclusive' | 'shared';
  readonly permits: number | undefined;
  readonly holders: readonly RowHolder[];
  readonly holderCount: number;
  readonly token: number | undefined;
  readonly method: string | undefined;
  readonly label: string | undefined;
  /** When the first holder got the lock. Undefined if nobody holds it. */
  readonly since: number | undefined;
  /** Whether `since` is when the board first saw the holder, not when it got the lock. */
  readonly atLeast: boolean;
  /** When the lease ends. Infinity for a key without expiry, undefined if nobody holds the lock. */
  readonly endsAt: number | undefined;
  /** The longest remaining lease seen for this holder, in milliseconds. */
  readonly leaseMs: number;
  readonly waiting: readonly RowWaiter[];
  readonly waiterCount: number;
  /** The callers of this instance that wait. Undefined if none does. */
  readonly callers: RowCallers | undefined;
}

interface RowHolder {
  /** Different for each module instance. */
  readonly id: string;
  readonly identity: string | undefined;
  readonly wireVersion: number | undefined;
}

type RowWaiter = RowHolder & Pick<BoardWaiter, 'mode' | 'permits'>;

interface RowCallers extends Omit<BoardCallers, 'waitedMs'> {
  /** When the first one began to wait. */
  readonly since: number;
}

/** All locks of one read. */
export class Rows {
  readonly held: number;
  /** How many instances are in queues. */
  readonly waiting: number;
  private readonly views = new Map<string, readonly Row[]>();

  constructor(
    readonly byKey: ReadonlyMap<string, Row>,
    /** Whether there are more locks than the board keeps. */
    readonly isTruncated: boolean,
  ) {
    const rows = [...byKey.values()];
    this.held = rows.filter(({ since }) => since !== undefined).length;
    this.waiting = rows.reduce((sum, { waiterCount }) => sum + waiterCount, 0);
  }

  get total(): number {
    return this.byKey.size;
  }

  /** Returns the rows that contain the text, sorted. All viewers with the same search and order share the work. */
  view(search: string, sort: Sort): readonly Row[] {
    const name = `${sort} ${search}`;
    const known = this.views.get(name);
    if (known !== undefined) return known;
    const text = search.toLowerCase();
    const all = [...this.byKey.values()];
    const found = text === '' ? all : all.filter((row) => contains(row, text));
    found.sort(ORDERS[sort]);
    if (this.views.size >= MOST_VIEWS) this.views.clear();
    this.views.set(name, found);
    return found;
  }
}

const MOST_VIEWS = 16;

/** The orders in which rows can be shown. */
export type Sort = 'waiters' | 'held' | 'resource';

const byText = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
const byResource = (a: Row, b: Row): number => byText(a.resource, b.resource);
// Infinity minus Infinity is NaN.
const byAge = (a: Row, b: Row): number => (a.since ?? 1e15) - (b.since ?? 1e15) || byResource(a, b);
const allWaitersOf = ({ waiterCount, callers }: Row): number => waiterCount + (callers?.count ?? 0);

const ORDERS: Readonly<Record<Sort, (a: Row, b: Row) => number>> = {
  waiters: (a, b) => allWaitersOf(b) - allWaitersOf(a) || byAge(a, b),
  held: byAge,
  resource: byResource,
};

/** Returns whether the value names a sort order. */
export const isSort = (value: unknown): value is Sort => typeof value === 'string' && Object.hasOwn(ORDERS, value);

function contains({ resource, method, label, holders, waiting }: Row, text: string): boolean {
  const has = (value: string | undefined): boolean => value?.toLowerCase().includes(text) === true;
  return has(resource) || has(method) || has(label) || [...holders, ...waiting].some(({ identity }) => has(identity));
}

/** The inputs of a read, apart from the locks. */
export interface ReadContext {
  /** The rows of the previous read. Undefined for the first. */
  readonly before: Rows | undefined;
  readonly now: () => number;
  /** Returns true if nobody needs the result. */
  readonly isOver: () => boolean;
}

/**
 * Reads all locks into rows. What is known of a holder from the previous rows is kept: when it was first seen, and its
 * longest lease.
 */
export async function readRows(
  locks: AsyncIterable<BoardLock> | Iterable<BoardLock>,
  { before, now, isOver }: ReadContext,
): Promise<Rows> {
  const rows = new Map<string, Row>();
  for await (const lock of locks) {
    // Leaving the loop ends the scan.
    if (isOver()) break;
    // A scan may return a key twice.
    if (rows.size >= MOST_LOCKS && !rows.has(lock.key)) return new Rows(rows, true);
    rows.set(lock.key, toRow(lock, before?.byKey.get(lock.key), now()));
  }
  return new Rows(rows, false);
}

function toRow(lock: BoardLock, before: Row | undefined, now: number): Row {
  const { resource, key, mode = 'exclusive', permits, others, waiting, fencingToken, method, label } = lock;
  const holders = (lock.holder === undefined ? [] : [lock, ...others.slice(0, MOST_HOLDERS - 1)]).map(toHolder);
  const isSame = before !== undefined && before.token === fencingToken && before.holders[0]?.id === holders[0]?.id;
  return {
    key,
    resource,
    family: familyOf(resource),
    mode,
    permits,
    holders,
    holderCount: holders.length === 0 ? 0 : 1 + others.length,
    token: fencingToken,
    method,
    label,
    ...timesOf(lock, isSame ? before : undefined, now),
    waiting: waiting.slice(0, MOST_WAITERS).map(({ waiter, identity, mode: wanted, permits: of, wireVersion }) => {
      return { id: waiter.slice(0, LONGEST_ID), identity, mode: wanted, permits: of, wireVersion };
    }),
    waiterCount: waiting.length,
    callers: callersOf(lock, before?.callers, now),
  };
}

function toHolder({ holder = '', identity, wireVersion }: BoardHolder): RowHolder {
  return { id: holder.slice(0, LONGEST_ID), identity, wireVersion };
}

/** Returns the times of a row. `before` is the row of the same hold in the previous read. */
function timesOf({ holder, heldForMs, expiresInMs }: BoardLock, before: Row | undefined, now: number) {
  if (holder === undefined) return { since: undefined, atLeast: false, endsAt: undefined, leaseMs: 0 };
  const since = heldForMs === undefined ? (before?.since ?? now) : steady(now - heldForMs, before?.since);
  return {
    since,
    atLeast: heldForMs === undefined,
    endsAt: steady(now + expiresInMs, before?.endsAt),
    leaseMs: Math.max(Number.isFinite(expiresInMs) ? Math.round(expiresInMs) : 0, before?.leaseMs ?? 0),
  };
}

function callersOf({ callers }: BoardLock, before: RowCallers | undefined, now: number): RowCallers | undefined {
  if (callers === undefined) return undefined;
  const { count, waitedMs, method, label } = callers;
  return { count, since: steady(now - waitedMs, before?.since), method, label };
}

function steady(value: number, before: number | undefined): number {
  return before !== undefined && Math.abs(value - before) < JITTER_MS ? before : value;
}

/** Returns the first segment of a resource: `goods` of `goods:300`. */
function familyOf(resource: string): string {
  const colon = resource.indexOf(':');
  return colon <= 0 ? resource : resource.slice(0, colon);
}
