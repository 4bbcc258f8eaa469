import type { LockMode, LockStore } from '../store/lock-store.js';
import type { Clock } from '../time/clock.js';

/**
 * The pause of an instance that polls a busy key, in milliseconds. It is the same for all, so that an instance that has
 * waited for longer does not come later.
 */
export const STEADY_PAUSE_MS = 50;

/** The longest yield, in milliseconds, if the store's retry policy has longer pauses. */
const LONGEST_YIELD_MS = 1_000;

/** The yields of an instance whose release notifies the others, in milliseconds. A JVM needs 8 to 9 to wake. */
const SHORTEST_NOTIFIED_MS = 5;
const FIRST_NOTIFIED_MS = 10;
const LONGEST_NOTIFIED_MS = 100;

/** How many yields in a row may pass without a sign of others before they count as gone. */
const MAX_FRUITLESS = 8;

/**
 * The turns of an instance that sees no others, in milliseconds: the first, and the longest. Each is four times as
 * long as the one before.
 */
const FIRST_LONE_MS = 125;
const LONGEST_LONE_MS = 1_000;

/** The yield after such a turn, in milliseconds: longer than the pause of a client that polls every 100 ms. */
const LONE_YIELD_MS = 105;
const LONE_SPREAD_MS = 20;

/**
 * Processes that are notified of releases take a key from each other at once. So a key that they have wanted for
 * `QUIET_PERIOD_MS` is not requested in the first `QUIET_MS` of each such period of the wall clock, which all of them
 * share. Local handoffs may go on for 50 ms of it. A client that polls every 100 ms finds the key free then.
 */
const QUIET_PERIOD_MS = 1_500;
const QUIET_MS = 150;

/** A shorter time between a release and the next request is none: both leave together. */
const SHORTEST_GAP_MS = 1;

/** For how long an unused key is remembered at least, in milliseconds. */
const REMEMBERED_MS = 10_000;

/**
 * The pause between two requests beside foreign clients that poll, in milliseconds. It is doubled if this instance gets
 * the key, and shortened if a foreign client was faster. So this instance gets about a third of the grants.
 */
const SHORTEST_FOREIGN_MS = 5;
const LONGEST_FOREIGN_MS = 50;

/** A turn beside foreign clients, in milliseconds. They often get the key again before others see it free. */
const FOREIGN_TURN_MS = 75;

/** The longest yield to foreign clients, in milliseconds: some of them pause for 200 to 400. */
const LONGEST_FOREIGN_YIELD_MS = 400;

/** For how long a key counts as shared with foreign clients after one of them has held it, in milliseconds. */
const FOREIGN_MS = 10_000;

/** A use of a key that has ended. */
export interface Use {
  /** How long the instance held the key. */
  readonly heldMs: number;
  /** How many of its callers held it. */
  readonly grants: number;
  /** Whether callers of this instance wait for it. */
  readonly isAwaited: boolean;
}

/** What an instance knows about a key that is wanted by several callers. */
interface KeyRecord {
  /** The present turn: how long the key was held in it, and by how many callers. */
  heldMs: number;
  grants: number;
  releasedAt: number;
  /** Whether a yield has ended, and its request is not answered yet. */
  hasYielded: boolean;
  /** How many yields in a row have ended without a sign of others. */
  fruitless: number;
  /** How many other processes have received the last release. */
  notified: number;
  /** Since when each release has been received by other processes. */
  notifiedSince: number;
  /** The yield that notified processes need. */
  notifiedMs: number;
  /** Until when the notified processes come first: for as long as the last turn took, each. */
  othersUntil: number;
  /** When a foreign client was last seen to hold the key, when its lease ends, and the pause beside such clients. */
  foreignAt: number;
  foreignUntil: number;
  foreignPauseMs: number;
}

/**
 * Returns the turns of a key. Undefined if the store's queue keeps the order, and for callers that share the lock:
 * they have no order.
 */
export function turnsOf(
  { turns, store }: { readonly turns?: Turns; readonly store: Pick<LockStore, 'capabilities'> },
  key: string,
  mode: LockMode,
): Turns | undefined {
  if (mode !== 'exclusive') return undefined;
  return !store.capabilities.queue || turns?.isSharedWithForeign(key) === true ? turns : undefined;
}

/**
 * Shares keys among instances and foreign clients if the store has no queue. An instance that releases a key and wants
 * it again would be first every time, because the others are still waiting to repeat their request. So it uses a key in
 * turns. After a turn it yields: it waits for about as long as the others wait between two requests.
 *
 * A turn ends after `maxLocalPasses` or `maxLocalHoldMs` if others were seen: a request was refused, or a release was
 * received. Foreign clients that poll are not seen before they succeed. So a turn ends after 1 s at the latest if the
 * key was never free for long. A key that is left free between its uses needs no yields.
 */
export class Turns {
  private recent = new Map<string, KeyRecord>();
  private older = new Map<string, KeyRecord>();
  private recentSince = 0;

  constructor(
    private readonly store: Pick<LockStore, 'capabilities' | 'inspect'>,
    private readonly clock: Clock,
    private readonly limits: { readonly maxLocalPasses: number; readonly maxLocalHoldMs: number },
  ) {}

  /** The number of remembered keys. @internal */
  get size(): number {
    return this.recent.size + this.older.size;
  }

  /**
   * Returns how long to wait before the key is requested, in milliseconds. 0 within a turn.
   * @param longestMs the longest yield that the waiting caller allows. A caller that does not wait does not yield.
   */
  yieldBefore(key: string, longestMs: number): number {
    const record = this.find(key);
    if (record === undefined || longestMs <= 0) return 0;
    return Math.min(longestMs, Math.max(this.yieldAfterTurn(record), this.quietMs(record)));
  }

  /** Returns how long to wait after a release by others before the key is requested, in milliseconds. */
  yieldAfterOthers(key: string): number {
    const record = this.find(key);
    if (record === undefined) return 0;
    return Math.max(this.clock.now() < record.othersUntil ? record.notifiedMs : 0, this.quietMs(record));
  }

  /** Returns the yield after a turn that is over. 0 within a turn. */
  private yieldAfterTurn(record: KeyRecord): number {
    const now = this.clock.now();
    const isLone = record.fruitless >= MAX_FRUITLESS;
    const ownMs = record.foreignAt === -Infinity ? this.limits.maxLocalHoldMs : FOREIGN_TURN_MS;
    const [turnMs, yieldMs] = isLone ? this.loneTurn(record) : [ownMs, this.yieldMs(record)];
    const sinceMs = now - record.releasedAt;
    const freeMs = sinceMs < SHORTEST_GAP_MS ? 0 : sinceMs;
    // A key that was left free has served the others already.
    record.heldMs = freeMs >= yieldMs ? 0 : Math.max(0, record.heldMs - (freeMs * turnMs) / yieldMs);
    if (freeMs >= yieldMs) record.grants = 0;
    if (record.grants === 0) return 0;
    const isOver = record.heldMs >= turnMs || (!isLone && record.grants > this.limits.maxLocalPasses);
    if (!isOver) return 0;
    record.othersUntil = now + Math.min(LONGEST_YIELD_MS, record.heldMs * record.notified);
    this.endTurn(record);
    record.hasYielded = true;
    return yieldMs;
  }

  /** Returns how long no instance requests the key, so that clients that poll find it free. */
  private quietMs({ notified, notifiedSince }: KeyRecord): number {
    if (notified === 0 || this.clock.now() - notifiedSince < QUIET_PERIOD_MS) return 0;
    return Math.max(0, QUIET_MS - (this.clock.wallTime() % QUIET_PERIOD_MS));
  }

  /** Called with a grant of the store. */
  onGranted(key: string): void {
    const record = this.find(key);
    if (record === undefined) return;
    record.foreignPauseMs = Math.min(LONGEST_FOREIGN_MS, record.foreignPauseMs * 2);
    if (record.hasYielded) this.onFruitless(record);
  }

  /** Returns whether a foreign client has held the key lately, so that a queue would not serve all. */
  isSharedWithForeign(key: string): boolean {
    if (this.size === 0) return false;
    const record = this.find(key);
    return record !== undefined && this.clock.now() - record.foreignAt < FOREIGN_MS;
  }

  /** Called if a foreign client holds the key. */
  onForeign(key: string, remainingMs = Infinity): void {
    const record = this.find(key) ?? this.add(key, 0);
    const now = this.clock.now();
    const isAnother = now + remainingMs > record.foreignUntil + 1;
    if (isAnother && now - record.foreignAt < FOREIGN_MS)
      record.foreignPauseMs = Math.max(SHORTEST_FOREIGN_MS, record.foreignPauseMs * 0.7);
    record.foreignAt = now;
    record.foreignUntil = now + remainingMs;
  }

  /** Returns how long to pause before the next request, while a foreign client holds the key. */
  pauseBesideForeign(key: string): number | undefined {
    return this.find(key)?.foreignPauseMs;
  }

  /** Called if a request was refused, because another holder has the key. */
  onRefused(key: string): void {
    const record = this.find(key) ?? this.add(key, 0);
    this.onOthers(record);
    this.endTurn(record);
  }

  /** Called now and then during a yield. Finds out whether others have the key, unless they were seen already. */
  async look(key: string): Promise<void> {
    const record = this.find(key);
    if (!record?.hasYielded || record.notified > 0) return;
    try {
      // The next request may be too late: others may have released the key by then.
      if ((await this.store.inspect(key))?.holder !== undefined) this.onOthersSeen(key);
    } catch {
      // The next request reports an outage.
    }
  }

  /** Called if another holder has the key, or has released it. */
  onOthersSeen(key: string): void {
    const record = this.find(key);
    if (record !== undefined) this.onOthers(record);
  }

  /** Called with the number of other processes that have received a release of this instance. */
  onNotified(key: string, count: number): void {
    const record = this.find(key) ?? (count > 0 ? this.add(key, 0) : undefined);
    if (record === undefined) return;
    if (count > record.notified) record.fruitless = 0;
    const now = this.clock.now();
    if (record.notified === 0 || now - record.releasedAt >= QUIET_PERIOD_MS) record.notifiedSince = now;
    record.notified = count;
  }

  /** Called when this instance releases the key. */
  onReleased(key: string, { heldMs, grants, isAwaited }: Use): void {
    const record = this.find(key) ?? (isAwaited ? this.add(key, MAX_FRUITLESS) : undefined);
    if (record === undefined) return;
    record.heldMs += heldMs;
    record.grants += grants;
    record.releasedAt = this.clock.now();
  }

  private onOthers(record: KeyRecord): void {
    if (record.hasYielded) record.notifiedMs = Math.max(SHORTEST_NOTIFIED_MS, record.notifiedMs * 0.9);
    record.hasYielded = false;
    record.fruitless = 0;
  }

  private onFruitless(record: KeyRecord): void {
    record.hasYielded = false;
    record.fruitless += 1;
    // The others were slower, or are gone.
    const longestMs = record.foreignAt === -Infinity ? LONGEST_NOTIFIED_MS : LONGEST_FOREIGN_YIELD_MS;
    record.notifiedMs = Math.min(longestMs, record.notifiedMs * 2);
  }

  private endTurn(record: KeyRecord): void {
    record.heldMs = 0;
    record.grants = 0;
  }

  private yieldMs({ notified, notifiedMs, foreignAt }: KeyRecord): number {
    if (notified > 0 || foreignAt !== -Infinity) return notifiedMs;
    return this.pollMs * (0.5 + this.clock.random() / 2);
  }

  /** Returns the turn and the yield of an instance that sees no others. */
  private loneTurn({ fruitless }: KeyRecord): [turnMs: number, yieldMs: number] {
    const turnMs = Math.min(LONGEST_LONE_MS, FIRST_LONE_MS * 4 ** (fruitless - MAX_FRUITLESS));
    const yieldMs = Math.max(LONE_YIELD_MS, this.pollMs);
    // The key is free for the same part of the time if the pauses are longer.
    const scale = yieldMs / LONE_YIELD_MS;
    return [Math.max(turnMs * scale, this.limits.maxLocalHoldMs), yieldMs + LONE_SPREAD_MS * this.clock.random()];
  }

  /** The pause between two requests of an instance with the same policy as this one. */
  private get pollMs(): number {
    return Math.min(LONGEST_YIELD_MS, this.store.capabilities.retry?.pauseMs ?? STEADY_PAUSE_MS);
  }

  private find(key: string): KeyRecord | undefined {
    const record = this.recent.get(key);
    if (record !== undefined || this.older.size === 0) return record;
    const older = this.older.get(key);
    if (older === undefined) return undefined;
    this.older.delete(key);
    this.recent.set(key, older);
    return older;
  }

  private add(key: string, fruitless: number): KeyRecord {
    const now = this.clock.now();
    if (now - this.recentSince >= REMEMBERED_MS) {
      this.older = this.recent;
      this.recent = new Map();
      this.recentSince = now;
    }
    const record: KeyRecord = {
      heldMs: 0,
      grants: 0,
      releasedAt: now,
      hasYielded: false,
      fruitless,
      notified: 0,
      notifiedSince: now,
      notifiedMs: FIRST_NOTIFIED_MS,
      othersUntil: 0,
      foreignAt: -Infinity,
      foreignUntil: -Infinity,
      foreignPauseMs: SHORTEST_FOREIGN_MS,
    };
    this.recent.set(key, record);
    return record;
  }
}
