import type { BoardHolder, BoardLock } from './board-source.js';

/** The most locks that the board keeps in memory. */
export const MOST_LOCKS = 50_000;
/** The most holders and waiters of one lock that the board keeps. It counts the others. */
const MOST_HOLDERS = 10;
const MOST_WAITERS = 20;
/** Two reads of one lease differ by the time of their replies. A smaller change is none. */
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
  /** Since when the first holder has the lock. Undefined if nobody holds it. */
  readonly since: number | undefined;
  /** Whether `since` is when the board has first seen the holder, and not when it got the lock. */
  readonly atLeast: boolean;
  /** When the lease ends. Infinity for a key without expiry, undefined if nobody holds the lock. */
  readonly endsAt: number | undefined;
  /** The longest rest of this holder's lease that the board has seen, in milliseconds. */
  readonly leaseMs: number;
  readonly waiting: readonly RowWaiter[];
  readonly waiterCount: number;
}

interface RowHolder {
  /** Different for each module instance. */
  readonly id: string;
  readonly identity: string | undefined;
}

interface RowWaiter {
  readonly identity: string | undefined;
  readonly id: string;
  readonly mode: 'exclusive' | 'shared';
  readonly permits: number | undefined;
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

  /** Returns the rows that contain the text, sorted. All viewers with one search share the work. */
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
const byAge = (a: Row, b: Row): number => (a.since ?? Infinity) - (b.since ?? Infinity) || byResource(a, b);

const ORDERS: Readonly<Record<Sort, (a: Row, b: Row) => number>> = {
  waiters: (a, b) => b.waiterCount - a.waiterCount || byAge(a, b),
  held: byAge,
  resource: byResource,
};

/** Returns whether that is the name of an order. */
export const isSort = (value: unknown): value is Sort => typeof value === 'string' && Object.hasOwn(ORDERS, value);

function contains({ resource, method, label, holders, waiting }: Row, text: string): boolean {
  const has = (value: string | undefined): boolean => value?.toLowerCase().includes(text) === true;
  return has(resource) || has(method) || has(label) || [...holders, ...waiting].some(({ identity }) => has(identity));
}

/**
 * Reads all locks into rows. What is known of a holder from the rows before is kept: since when it was seen, and its
 * longest lease.
 */
export async function readRows(
  locks: AsyncIterable<BoardLock> | Iterable<BoardLock>,
  before: Rows | undefined,
  now: () => number,
): Promise<Rows> {
  const rows = new Map<string, Row>();
  for await (const lock of locks) {
    // A scan may return a key twice.
    if (rows.size >= MOST_LOCKS && !rows.has(lock.key)) return new Rows(rows, true);
    rows.set(lock.key, toRow(lock, before?.byKey.get(lock.key), now()));
  }
  return new Rows(rows, false);
}

function toRow(lock: BoardLock, before: Row | undefined, now: number): Row {
  const { resource, key, mode = 'exclusive', permits, others, waiting, fencingToken, method, label } = lock;
  const holders = (lock.holder === undefined ? [] : [lock, ...others]).map(toHolder);
  const isSame = before !== undefined && before.token === fencingToken && before.holders[0]?.id === holders[0]?.id;
  return {
    key,
    resource,
    family: familyOf(resource),
    mode,
    permits,
    holders: holders.slice(0, MOST_HOLDERS),
    holderCount: holders.length,
    token: fencingToken,
    method,
    label,
    ...timesOf(lock, isSame ? before : undefined, now),
    waiting: waiting.slice(0, MOST_WAITERS).map(({ waiter, identity, mode: wanted, permits: of }) => {
      return { id: waiter, identity, mode: wanted, permits: of };
    }),
    waiterCount: waiting.length,
  };
}

function toHolder({ holder = '', identity }: BoardHolder): RowHolder {
  return { id: holder, identity };
}

/** Returns the times of a row. `before` is the row of the same hold in the read before. */
function timesOf({ holder, heldForMs, expiresInMs }: BoardLock, before: Row | undefined, now: number) {
  if (holder === undefined) return { since: undefined, atLeast: false, endsAt: undefined, leaseMs: 0 };
  const since = heldForMs === undefined ? (before?.since ?? now) : steady(now - heldForMs, before?.since);
  const restMs = expiresInMs ?? Infinity;
  return {
    since,
    atLeast: heldForMs === undefined,
    endsAt: steady(now + restMs, before?.endsAt),
    leaseMs: Math.max(Number.isFinite(restMs) ? Math.round(restMs) : 0, before?.leaseMs ?? 0),
  };
}

function steady(value: number, before: number | undefined): number {
  return before !== undefined && Math.abs(value - before) < JITTER_MS ? before : value;
}

/** Returns the first segment of a resource: `goods` of `goods:300`. */
function familyOf(resource: string): string {
  const colon = resource.indexOf(':');
  return colon <= 0 ? resource : resource.slice(0, colon);
}
