import { messageOf } from '../common/errors.js';
import type { Clock } from '../clock/clock.js';
import type { LockHolder, LockInfo } from '../lock-info.js';
import type { LockService } from '../lock.service.js';

/** The maximum number of locks in a reply. */
const MOST_SHOWN = 100;
/** The maximum number of locks that the board keeps in memory, about 1 kB each. */
const MOST_READ = 10_000;
/** The maximum number of holders, and of waiters, that are named for a lock. The others are counted. */
const MOST_NAMED = 5;
/** The id of a holder is cut here: for a key that another system wrote, it is the whole value. */
const LONGEST_ID = 100;
/** The minimum pause between two reads of the locks. */
const PAUSE_MS = 750;
/** The pause is longer if a read takes long, so that reads run for at most a tenth of the time. */
const PAUSE_PER_READ = 9;

/** A hold that a viewer wants to end. */
export interface SeenHold {
  readonly resource: string;
  /** The id of the first holder that the viewer saw. */
  readonly holder: string;
  /** Undefined for a shared lock, and for a store without tokens. */
  readonly token: number | undefined;
}

/** A lock of the board. Times are on the clock of the board. */
interface Row {
  readonly key: string;
  readonly resource: string;
  readonly mode: LockInfo['mode'];
  readonly permits: number | undefined;
  /** Whether nobody holds the lock, because its work is done until the lease ends. */
  readonly isDone: boolean;
  /** The id of the first holder. Undefined if nobody holds the lock. */
  readonly holder: string | undefined;
  /** What the page calls the first holders. */
  readonly holders: readonly string[];
  readonly holderCount: number;
  readonly token: number | undefined;
  readonly method: string | undefined;
  readonly label: string | undefined;
  /** When the first holder got the lock. Undefined if that is not known. */
  readonly since: number | undefined;
  /** When the lease ends. Infinity for a key without expiry. */
  readonly endsAt: number;
  /** What the page calls the first instances in the queue. */
  readonly waiting: readonly string[];
  readonly waiterCount: number;
  /** How many callers of this instance wait. */
  readonly waitingHere: number;
}

/** All locks of one read, or why they could not be read. */
interface Snapshot {
  readonly rows: readonly Row[];
  /** Whether there are more locks than the board keeps. */
  readonly isTruncated: boolean;
  readonly problem: string | undefined;
}

/** The locks of one module instance, as its viewers see them. */
export class LockBoard {
  /** The read that runs, or the latest one during the pause after it. */
  private reading: Promise<Snapshot> | undefined;

  constructor(
    private readonly locks: LockService,
    private readonly clock: Clock,
  ) {}

  /**
   * Returns the locks whose resource, method, label or named instances contain the text, as the page shows them. All
   * viewers share the reads. Never rejects.
   */
  async state(search: string): Promise<object> {
    const { rows, isTruncated, problem } = await (this.reading ??= this.read());
    const text = search.toLowerCase();
    const found = text === '' ? rows : rows.filter((row) => contains(row, text));
    const now = this.clock.now();
    return {
      problem,
      isTruncated,
      held: rows.filter(({ holder, isDone }) => holder !== undefined && !isDone).length,
      waiting: rows.reduce((sum, { waiterCount }) => sum + waiterCount, 0),
      found: found.length,
      locks: found.slice(0, MOST_SHOWN).map((row) => toReply(row, now)),
    };
  }

  /**
   * Ends the hold of any holder. For a shared lock, this ends all holds.
   *
   * @returns false if the lock is no longer held as the viewer saw it.
   * @throws what the lock service throws.
   */
  async release({ resource, holder, token }: SeenHold): Promise<boolean> {
    if (token !== undefined) return this.locks.forceRelease(resource, { ifToken: token });
    return (await this.isHeldBy(resource, holder)) && this.locks.forceRelease(resource);
  }

  private async isHeldBy(resource: string, holder: string): Promise<boolean> {
    const lock = await this.locks.inspect(resource);
    return lock !== null && holdersOf(lock).some((each) => idOf(each) === holder);
  }

  private async read(): Promise<Snapshot> {
    const startedAt = this.clock.now();
    const snapshot = await this.readAll();
    const pauseMs = Math.max(PAUSE_MS, PAUSE_PER_READ * (this.clock.now() - startedAt));
    this.clock.schedule(pauseMs, () => (this.reading = undefined), true);
    return snapshot;
  }

  private async readAll(): Promise<Snapshot> {
    // By key, because a scan may return a key twice.
    const rows = new Map<string, Row>();
    let isTruncated = false;
    try {
      for await (const lock of this.locks.list()) {
        isTruncated = rows.size === MOST_READ && !rows.has(lock.key);
        if (isTruncated) break;
        rows.set(lock.key, toRow(lock, this.clock.now()));
      }
    } catch (error) {
      return { rows: [], isTruncated: false, problem: messageOf(error) };
    }
    return { rows: [...rows.values()].toSorted(byWaiters), isTruncated, problem: undefined };
  }
}

function toRow(lock: LockInfo, now: number): Row {
  const { key, resource, mode, permits, fencingToken, method, label, heldForMs, waiting, waitingHere = 0 } = lock;
  const holders = holdersOf(lock);
  const [first] = holders;
  return {
    key,
    resource,
    mode,
    permits,
    isDone: lock.isDone === true,
    holder: first && idOf(first),
    holders: holders.slice(0, MOST_NAMED).map(nameOf),
    holderCount: holders.length,
    token: fencingToken,
    method,
    label,
    since: heldForMs === undefined ? undefined : now - heldForMs,
    endsAt: now + lock.expiresInMs,
    waiting: waiting.slice(0, MOST_NAMED).map(({ waiter, identity }) => identity ?? waiter),
    waiterCount: waiting.length,
    waitingHere,
  };
}

/** Returns a row whose times count from now. Infinity becomes null in JSON. */
function toReply({ since, endsAt, ...row }: Row, now: number): object {
  return { ...row, heldForMs: since === undefined ? undefined : now - since, expiresInMs: endsAt - now };
}

const holdersOf = (lock: LockInfo): readonly LockHolder[] => (lock.isHeld ? [lock, ...lock.others] : []);
const idOf = ({ holder }: LockHolder): string => holder.slice(0, LONGEST_ID);
const nameOf = (holder: LockHolder): string => holder.identity ?? idOf(holder);

/** Orders the locks with the most waiters first, then those that are held longest. */
function byWaiters(a: Row, b: Row): number {
  const waiters = b.waiterCount + b.waitingHere - (a.waiterCount + a.waitingHere);
  const now = Number.MAX_SAFE_INTEGER;
  return waiters || (a.since ?? now) - (b.since ?? now) || (a.resource < b.resource ? -1 : 1);
}

function contains({ resource, method, label, holders, waiting }: Row, text: string): boolean {
  return [resource, method, label, ...holders, ...waiting].some((each) => each?.toLowerCase().includes(text));
}
