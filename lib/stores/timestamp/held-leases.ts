import type { Expiry } from './expiry-clock.js';

/**
 * A lock that this instance holds, as far as it knows. The value of the key is its end and does not name the holder.
 */
export class HeldLease {
  value: number;
  overAt: number;
  lengthMs: number;
  /** The lowest and the highest value that may be in the key. A write without a reply may have happened or not. */
  private lowest: number;
  private highest: number;

  constructor(
    readonly owner: string,
    readonly key: string,
    { value, overAt, lengthMs }: Expiry,
    private readonly tolerance: number,
  ) {
    this.value = this.lowest = this.highest = value;
    this.overAt = overAt;
    this.lengthMs = lengthMs;
  }

  /**
   * The values that are taken for ours: those that we may have written, and those that the loser of a race may have.
   */
  get range(): readonly [lowest: number, highest: number] {
    return [this.lowest - this.tolerance, this.highest + this.tolerance];
  }

  /** Returns whether a value is taken for ours. */
  covers(value: number | undefined): boolean {
    const [lowest, highest] = this.range;
    return value !== undefined && value >= lowest && value <= highest;
  }

  /** Is called before a new expiry is sent. */
  onWrite({ value }: Expiry): void {
    this.lowest = Math.min(this.lowest, value);
    this.highest = Math.max(this.highest, value);
  }

  /** Is called when a new expiry has been written. */
  onWritten({ value, overAt, lengthMs }: Expiry): void {
    // `highest` stays: another write that was sent meanwhile may still replace this value.
    this.value = this.lowest = value;
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

  constructor(private readonly isOver: (lease: HeldLease) => boolean) {}

  get size(): number {
    return this.leases.size;
  }

  /** Returns the owner's lease if it is not over, and removes it if it is. */
  of(owner: string): HeldLease | undefined {
    const lease = this.leases.get(owner);
    if (lease === undefined || !this.isOver(lease)) return lease;
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
      if (lease.key === key && lease.covers(value) && !this.isOver(lease)) return lease.owner;
    }
    return undefined;
  }

  clear(): void {
    this.leases.clear();
  }

  private sweep(): void {
    for (const [owner, lease] of this.leases) if (this.isOver(lease)) this.leases.delete(owner);
    this.sweepAt = Math.max(SWEEP_FROM, this.leases.size * 2);
  }
}
