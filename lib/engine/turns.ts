import { dropOldest } from '../common/drop-oldest.js';
import type { LockStore } from '../contract/store.js';
import type { Clock } from '../clock/clock.js';

/**
 * How long a turn and the yield after it last, in milliseconds. The yield is longer than the pause of a polling
 * instance, which then gets the key. That instance's turn is as long as the yield, so this instance is refused and
 * notices the other.
 */
const TURN_MS = 60;

/**
 * An instance that has yielded within the last `PERIOD_MS` does not request the key in the first `QUIET_MS` of each
 * period. The periods follow the wall clock, which all processes share. So a client that polls every 100 ms finds the
 * key free, even if releases notify the instances.
 */
const QUIET_MS = 140;
const PERIOD_MS = 1_500;

/**
 * How long a notified instance waits before it requests the key, in milliseconds: `TURN_SPREAD_MS` if its last turn was
 * one turn ago, half of that if two, and so on, but at most `LONGEST_SPREAD_MS`. So the instance whose last turn is the
 * oldest comes first. Timers have whole milliseconds, which is enough for five instances.
 */
const TURN_SPREAD_MS = 20;
const LONGEST_SPREAD_MS = 8;

/** How long a key counts as shared after a client of another library has held it, in milliseconds. */
const FOREIGN_MS = 10_000;

/** How many keys are remembered. */
const MOST_KEYS = 10_000;

/** What an instance knows about a key, in local time. */
interface KeyRecord {
  /** When the instance will have left the key free for as long as it held the key. */
  evenAt: number;
  /** Until when the instance shares the key with others, because it has seen them. */
  sharedUntil: number;
  /** When the instance's last yield began. */
  yieldedAt: number;
  /** When the instance's turn began. Undefined between its turns. */
  turnSince: number | undefined;
  /** Whether the store's queue, if it has one, cannot be used. */
  isUnqueued: boolean;
}

/**
 * Shares keys among instances and foreign clients if the store has no queue, or if its queue cannot be used. An
 * instance that releases a key and wants it again would be first every time, because the others are still waiting to
 * repeat their request. So it yields after each turn if it has seen others have the key in the last period. An instance
 * that has seen nobody yields once per period, because it cannot see waiting instances before they have the key.
 * Callers that share the lock have no turns.
 */
export class Turns {
  private readonly records = new Map<string, KeyRecord>();

  constructor(
    private readonly clock: Clock,
    private readonly store: Pick<LockStore, 'capabilities' | 'canQueue'>,
  ) {}

  /** Returns how long to wait before the key is requested, in milliseconds. 0 within a turn. */
  yieldBefore(key: string): number {
    const record = this.records.get(key);
    return record === undefined ? 0 : Math.max(this.endTurn(key, record), this.quietMs(record));
  }

  /** Returns how long to wait after a release by others before the key is requested, in milliseconds. */
  yieldAfterOthers(key: string): number {
    const record = this.records.get(key);
    if (record === undefined || !this.hasYielded(record)) return 0;
    // Redis sends each message to the same instance first.
    const turnsAgo = (this.clock.now() - record.yieldedAt) / TURN_MS;
    return this.quietMs(record) + Math.min(LONGEST_SPREAD_MS, TURN_SPREAD_MS / turnsAgo);
  }

  /** Called if a client of another library has the key. */
  onForeigner(key: string): void {
    this.share(this.records.get(key) ?? this.add(key), FOREIGN_MS);
  }

  /** Called if another instance has the key, and this one got no place in a queue. */
  onOthers(key: string): void {
    // Instances that share a queue return to it after their turns.
    if (this.canQueue(key)) return;
    const record = this.records.get(key) ?? this.add(key);
    record.isUnqueued = true;
    this.share(record, PERIOD_MS);
  }

  /** Called when this instance releases the key. @param isAwaited whether more of its callers want the key. */
  onReleased(key: string, heldMs: number, isAwaited: boolean): void {
    const record = this.records.get(key) ?? (isAwaited ? this.add(key) : undefined);
    if (record === undefined) return;
    const grantedAt = this.clock.now() - heldMs;
    record.turnSince ??= grantedAt;
    record.evenAt = Math.max(record.evenAt, grantedAt) + 2 * heldMs;
  }

  private canQueue(key: string): boolean {
    return this.store.capabilities.queue && this.store.canQueue?.(key) !== false;
  }

  private share(record: KeyRecord, forMs: number): void {
    const now = this.clock.now();
    // An instance that was alone had no turn.
    if (now >= record.sharedUntil) record.turnSince = undefined;
    record.sharedUntil = Math.max(record.sharedUntil, now + forMs);
  }

  /** Ends the turn if it has lasted long enough. Returns the yield after it. */
  private endTurn(key: string, record: KeyRecord): number {
    const now = this.clock.now();
    const isShared = now < record.sharedUntil;
    const isOver = record.evenAt - now >= (isShared ? TURN_MS : QUIET_MS);
    if (isOver) {
      record.evenAt = now;
      // Others may wait, which an instance that always has the key does not see.
      record.isUnqueued = !this.canQueue(key);
    }
    if (!record.isUnqueued && this.store.capabilities.queue) return isShared ? this.endTurnInQueue(record, now) : 0;
    if (!isOver || (!isShared && this.hasYielded(record))) return 0;
    record.yieldedAt = now;
    return TURN_MS;
  }

  /**
   * The same if other instances take their turns by the queue, and only clients of another library are not in it. Those
   * find the key free when all instances yield. So the turns of the others count as part of this instance's turn.
   */
  private endTurnInQueue(record: KeyRecord, now: number): number {
    if (record.turnSince === undefined || now - record.turnSince < TURN_MS) return 0;
    record.turnSince = undefined;
    return TURN_MS;
  }

  /** Returns how long this instance must not request the key, in milliseconds. */
  private quietMs(record: KeyRecord): number {
    return this.hasYielded(record) ? Math.max(0, QUIET_MS - (this.clock.wallTime() % PERIOD_MS)) : 0;
  }

  private hasYielded({ yieldedAt }: KeyRecord): boolean {
    return this.clock.now() - yieldedAt < PERIOD_MS;
  }

  private add(key: string): KeyRecord {
    const record: KeyRecord = {
      evenAt: 0,
      sharedUntil: 0,
      yieldedAt: -Infinity,
      turnSince: undefined,
      isUnqueued: false,
    };
    this.records.set(key, record);
    dropOldest(this.records, MOST_KEYS);
    return record;
  }
}
