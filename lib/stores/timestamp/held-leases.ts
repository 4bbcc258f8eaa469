import type { Expiry, ExpiryClock, RaceWindow } from './expiry-clock.js';

/**
 * A lock that this instance holds, as far as it knows. The value of the key is its end and does not name the holder.
 */
export class HeldLease {
  value: number;
  overAt: number;
  lengthMs: number;
  /** The end of the time in which the value of a race's loser counts as ours, on the monotonic clock. */
  readonly raceUntil: number;
  /** The values that we may have written to the key. A write without a reply may have happened or not. */
  private written: readonly number[];

  constructor(
    readonly owner: string,
    readonly key: string,
    { value, overAt, lengthMs }: Expiry,
    private readonly race: RaceWindow,
  ) {
    this.raceUntil = race.until;
    this.value = value;
    this.written = [value];
    this.overAt = overAt;
    this.lengthMs = lengthMs;
  }

  /** The values that we may have written, and those that the loser of a race may have. */
  get range(): readonly [lowest: number, highest: number] {
    return [Math.min(...this.written) - this.race.tolerance, Math.max(...this.written) + this.race.tolerance];
  }

  /** Returns whether we may have written a value. */
  wrote(value: number | undefined): boolean {
    return value !== undefined && this.written.includes(value);
  }

  /** Returns whether we, or the loser of a race, may have written a value. */
  covers(value: number | undefined): boolean {
    const [lowest, highest] = this.range;
    return value !== undefined && value >= lowest && value <= highest;
  }

  /** Called before a new expiry is sent. */
  onWrite({ value }: Expiry): void {
    if (!this.written.includes(value)) this.written = [...this.written, value];
  }

  /** Called when a new expiry has been written. */
  onWritten({ value, overAt, lengthMs }: Expiry): void {
    // Another write that was sent before this reply may still replace this value. It has a later one.
    this.written = [value, ...this.written.filter((other) => other > value)];
    this.value = value;
    this.overAt = overAt;
    this.lengthMs = lengthMs;
  }
}

/** The first sweep happens at this number of leases, and the next ones whenever the number has doubled. */
const SWEEP_FROM = 64;

/** The locks that this instance holds, until they are released or over. */
export class HeldLeases {
  private readonly leases = new Map<string, HeldLease>();
  private sweepAt = SWEEP_FROM;

  constructor(private readonly time: Pick<ExpiryClock, 'isOver' | 'isInRace'>) {}

  get size(): number {
    return this.leases.size;
  }

  /** Returns the owner's lease if it is not over, and removes it if it is. */
  of(owner: string): HeldLease | undefined {
    const lease = this.leases.get(owner);
    if (lease === undefined || !this.time.isOver(lease)) return lease;
    this.leases.delete(owner);
    return undefined;
  }

  add(lease: HeldLease): void {
    if (this.leases.size >= this.sweepAt) this.sweep();
    this.leases.set(lease.owner, lease);
  }

  forget(owner: string): void {
    this.leases.delete(owner);
  }

  /** Returns the owner of a key's value if it is one of ours. */
  ownerOf(key: string, value: number | undefined): string | undefined {
    for (const lease of this.leases.values()) {
      const isOurs = lease.wrote(value) || (this.time.isInRace(lease) && lease.covers(value));
      if (lease.key === key && isOurs && !this.time.isOver(lease)) return lease.owner;
    }
    return undefined;
  }

  clear(): void {
    this.leases.clear();
  }

  private sweep(): void {
    for (const [owner, lease] of this.leases) if (this.time.isOver(lease)) this.leases.delete(owner);
    this.sweepAt = Math.max(SWEEP_FROM, this.leases.size * 2);
  }
}
