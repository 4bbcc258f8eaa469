import type { Expiry, ExpiryClock } from './expiry-clock.js';

/** The most by which the value of a race's loser may differ from the holder's, in milliseconds. */
const MAX_TOLERANCE_MS = 2_000;

/**
 * The shortest lease in which the loser of a race is tolerated. Another client takes over when the loser's value is
 * over, a lease after the loser has computed it. In the first half of the holder's lease that is impossible, unless the
 * GETSET was under way for longer than the other half. A busy machine delays a request that long only in short leases.
 */
const SHORTEST_RACE_MS = 1_000;

/**
 * A lock that this instance holds by plain commands, as far as it knows. The value of the key is its end and does not
 * name the holder. The loser of a race has read the expired value before the holder replaced it, and overwrites the
 * holder's value with its own.
 */
export class HeldLease {
  /** The values that we may have written to the key. A write without a reply may have happened or not. */
  private written: readonly number[];
  /** By how much the value of a race's loser may differ from ours, in the protocol's unit. */
  private readonly tolerance: number = 0;
  /** Until when a value can only be a loser's, on the monotonic clock. Later it can also be another holder's. */
  private readonly raceUntil: number = -Infinity;

  constructor(
    readonly owner: string,
    readonly key: string,
    private readonly time: ExpiryClock,
    public expiry: Expiry,
  ) {
    const { value, ttl, overAt, lengthMs } = expiry;
    this.written = [value];
    const leaseMs = (ttl - 1) * time.unitMs;
    if (leaseMs < SHORTEST_RACE_MS) return;
    this.tolerance = Math.min(MAX_TOLERANCE_MS, leaseMs / 4) / time.unitMs;
    this.raceUntil = overAt - lengthMs + leaseMs / 2;
  }

  get isOver(): boolean {
    return this.time.isOver(this.expiry);
  }

  /** Returns whether we may have written a value. */
  wrote(value: number | undefined): boolean {
    return value !== undefined && this.written.includes(value);
  }

  /** Returns whether the loser of a race may have written a value, and nobody else can have. */
  isLosers(value: number | undefined): boolean {
    if (value === undefined || this.time.clock.now() >= this.raceUntil) return false;
    return value >= Math.min(...this.written) - this.tolerance && value <= Math.max(...this.written) + this.tolerance;
  }

  /** Called before a new expiry is sent. */
  onWrite({ value }: Expiry): void {
    if (!this.written.includes(value)) this.written = [...this.written, value];
  }

  /** Called when a new expiry has been written. */
  onWritten(expiry: Expiry): void {
    // Another write that was sent before this reply may still replace this value. It has a later one.
    this.written = [expiry.value, ...this.written.filter((other) => other > expiry.value)];
    this.expiry = expiry;
  }
}
