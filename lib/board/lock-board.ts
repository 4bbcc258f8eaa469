import { createHash, randomBytes } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { messageOf } from '../core/errors.js';
import type { StorePing } from '../core/store/store-ping.js';
import type { Clock } from '../core/time/clock.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { BoardEvents, BUCKET_MS, BUCKETS } from './board-events.js';
import { type Row, type Rows, readRows, type Sort } from './board-rows.js';
import type { BoardSource } from './board-source.js';
import { SharedTask, type TaskResult } from './shared-task.js';
import { visibleText } from './visible-text.js';

/** The most locks that a reply has. */
const PAGE_SIZE = 50;
/** The shortest time between two reads of all locks, and between two requests to the servers. */
const PAUSE_MS = 750;
/** A reply waits this long for a read, and then shows the one before. */
const LONGEST_REPLY_MS = 2_500;

/** What a viewer looks at, and what it received before. */
export interface BoardQuery {
  readonly search: string;
  readonly sort: Sort;
  /** The first page is 0. */
  readonly page: number;
  /** The `version` of the reply before. Undefined if the viewer needs a reply at once. */
  readonly after: string | undefined;
  /** The hashes of the locks and of the lost locks that the viewer has. They are not sent again. */
  readonly locks: string | undefined;
  readonly lost: string | undefined;
}

/** A release by force: which hold, and who wants it. */
export interface ForcedRelease {
  readonly resource: string;
  /** The token of the hold that the viewer saw. Undefined for a lock without a token. */
  readonly token: number | undefined;
  readonly caller: string;
  /** Whether the viewer saw that several callers share the lock, or have its permits. */
  readonly isShared: boolean;
}

/** What the viewers of one board share. */
export class LockBoard {
  private readonly id = randomBytes(6).toString('base64url');
  private readonly logger = new Logger('RedisLockBoard');
  private readonly startedAt: number;
  /** Names the module instance in the log, because two of them may have locks of one name. */
  private readonly suffix: string;
  private closed = false;
  private readonly events: BoardEvents;
  private readonly locks: SharedTask<ReadLocks>;
  private readonly servers: SharedTask<PingedServers>;

  /** @param name the name of the module instance. */
  constructor(
    readonly name: string,
    private readonly source: BoardSource,
    private readonly clock: Clock,
  ) {
    this.startedAt = clock.now();
    this.suffix = name === DEFAULT_INSTANCE ? '' : ` of the module instance ${name}`;
    this.events = new BoardEvents(name, clock);
    this.locks = new SharedTask(clock, PAUSE_MS, () => this.readLocks());
    this.servers = new SharedTask(clock, PAUSE_MS, () => this.pingServers());
  }

  /** Starts to record events. */
  open(): void {
    this.events.start();
  }

  /** Stops recording events and reading locks, and sends all waiting replies. */
  close(): void {
    this.closed = true;
    this.events.stop();
    this.locks.close();
    this.servers.close();
  }

  /** Whether the application shuts down. */
  get isClosed(): boolean {
    return this.closed;
  }

  /** Returns the state of the locks. Waits for the next read if the viewer has the latest. Never rejects. */
  async state(query: BoardQuery): Promise<object> {
    const isKnown = query.after !== undefined && query.after === this.version;
    if (isKnown || !this.locks.isFresh) {
      await Promise.all([this.locks.next(LONGEST_REPLY_MS), this.servers.next(LONGEST_REPLY_MS)]);
    }
    return this.describe(query);
  }

  /**
   * Ends a hold of any holder, and logs the caller.
   *
   * @returns false if the lock is no longer held, or another holder has it.
   * @throws what the lock service throws.
   */
  async release({ resource, token, caller, isShared }: ForcedRelease): Promise<boolean> {
    const what = `${visibleText(resource)}${token === undefined ? '' : ` (fencing token ${token})`}${this.suffix}`;
    try {
      // The caller of the board has not seen a hold that is exclusive now.
      const isOther = isShared && (await this.source.isExclusive(resource));
      const options = token === undefined ? {} : { ifToken: token };
      const released = !isOther && (await this.source.forceRelease(resource, options));
      const outcome = released ? 'was released by force' : 'was not released by force, because it is no longer held';
      this.logger.warn(`${what} ${outcome}: requested on the board by ${caller}.`);
      return released;
    } catch (error) {
      const why = visibleText(messageOf(error));
      this.logger.warn(`${what} could not be released by force: requested on the board by ${caller}. ${why}`);
      throw error;
    }
  }

  private get version(): string | undefined {
    const { latest } = this.locks;
    return latest && `${this.id}.${latest.index}`;
  }

  private async readLocks(): Promise<ReadLocks> {
    const before = this.locks.latest?.value.whole;
    const context = { before, now: () => this.clock.now(), isOver: () => this.closed };
    try {
      const rows = await readRows(this.source.list(), context);
      this.events.onRead(rows.held, rows.waiting);
      return { rows, whole: rows, problem: undefined };
    } catch (error) {
      const problem = messageOf(error);
      try {
        return { rows: await readRows(this.source.local(), context), whole: before, problem };
      } catch {
        return { rows: undefined, whole: before, problem };
      }
    }
  }

  private async pingServers(): Promise<PingedServers> {
    try {
      return { ping: await this.source.ping(), problem: undefined };
    } catch (error) {
      return { ping: undefined, problem: messageOf(error) };
    }
  }

  private describe(query: BoardQuery): object {
    const { latest } = this.locks;
    const lost = this.describeLost(query.lost);
    return {
      version: this.version,
      nextMs: Math.round(this.locks.restMs),
      instance: {
        id: this.id,
        name: this.name,
        identity: this.source.identity,
        upMs: Math.round(this.clock.now() - this.startedAt),
      },
      servers: this.servers.latest?.value,
      ...(latest && this.describeLocks(latest, query)),
      ...lost,
      plots: { bucketMs: BUCKET_MS, count: BUCKETS, now: this.clock.wallTime(), buckets: this.events.recent() },
    };
  }

  private describeLocks(read: TaskResult<ReadLocks>, { search, sort, page, locks: known }: BoardQuery): object {
    const now = this.clock.now();
    const { rows, problem } = read.value;
    const found = rows?.view(search, sort) ?? [];
    const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
    const shown = Math.min(page, pages - 1);
    const onPage = found.slice(shown * PAGE_SIZE, (shown + 1) * PAGE_SIZE);
    const hash = hashOf(onPage);
    return {
      ageMs: Math.round(now - read.startedAt),
      tookMs: Math.round(read.tookMs),
      problem,
      isKnown: rows !== undefined,
      total: rows?.total ?? 0,
      held: rows?.held ?? 0,
      waiting: rows?.waiting ?? 0,
      isTruncated: rows?.isTruncated ?? false,
      found: found.length,
      page: shown,
      pages,
      locksHash: hash,
      locks: hash === known ? undefined : onPage.map((row) => toReply(row, now)),
    };
  }

  private describeLost(known: string | undefined): object {
    const { lost, lostCount } = this.events;
    const lostHash = `${this.id}.${lostCount}`;
    return { lostCount, lostHash, lost: lostHash === known ? undefined : lost };
  }
}

/** All locks, or why they cannot be read. With both, the rows have what this instance holds and waits for. */
interface ReadLocks {
  readonly rows: Rows | undefined;
  /** The rows of the last read that found all locks. An outage must not make the board forget their times. */
  readonly whole: Rows | undefined;
  readonly problem: string | undefined;
}

/** The servers, or why they are not known. */
interface PingedServers {
  readonly ping: StorePing | undefined;
  readonly problem: string | undefined;
}

function hashOf(rows: readonly Row[]): string {
  return createHash('sha256').update(JSON.stringify(rows)).digest('base64url').slice(0, 16);
}

/** Returns a row whose times count from now. Infinity becomes null in JSON. */
function toReply({ since, endsAt, callers, ...row }: Row, now: number): object {
  return {
    ...row,
    heldMs: since === undefined ? undefined : Math.round(now - since),
    expiresInMs: endsAt === undefined ? undefined : Math.round(endsAt - now),
    callers: callers && toCallers(callers, now),
  };
}

function toCallers({ since, ...callers }: NonNullable<Row['callers']>, now: number): object {
  return { ...callers, waitedMs: Math.round(now - since) };
}
