/** An expiry, as it is written into a key. */
export interface Expiry {
  /** The last moment of the lease, in the protocol's unit since 1970. */
  readonly value: number;
  /** The same on the clock that nobody sets. */
  readonly overAt: number;
  /** How long it is from when it was made, in milliseconds. */
  readonly lengthMs: number;
  /** The key's own TTL in the protocol's unit: a duration, for EXPIRE or PEXPIRE. */
  readonly ttl: number;
}

/** A lock that is ours, as far as we know: the value in its key tells when it ends, and not whose it is. */
export class HeldLease {
  value: number;
  overAt: number;
  lengthMs: number;
  /** The lowest and the highest value that we may have written: a write without an answer may have happened, or not. */
  private lowest: number;
  private highest: number;

  constructor(
    readonly owner: string,
    readonly key: string,
    { value, overAt, lengthMs }: Expiry,
    private readonly beside: number,
  ) {
    this.value = this.lowest = this.highest = value;
    this.overAt = overAt;
    this.lengthMs = lengthMs;
  }

  /** The values that are taken for ours: what we wrote, and what the loser of a race may have put in its place. */
  get range(): readonly [lowest: number, highest: number] {
    return [this.lowest - this.beside, this.highest + this.beside];
  }

  /** Whether that value is taken for ours. */
  covers(value: number | undefined): boolean {
    const [lowest, highest] = this.range;
    return value !== undefined && value >= lowest && value <= highest;
  }

  /** A new expiry is sent. */
  writing({ value }: Expiry): void {
    this.lowest = Math.min(this.lowest, value);
    this.highest = Math.max(this.highest, value);
  }

  /** A new expiry has been written. */
  wrote({ value, overAt, lengthMs }: Expiry): void {
    // Of two that were on their way the later one may have been written behind it.
    this.value = this.lowest = value;
    this.overAt = overAt;
    this.lengthMs = lengthMs;
  }
}

/** Leases that nobody releases are swept up when there are this many, and again when they have doubled. */
const SWEEP_FROM = 64;

/** The locks that are ours, until they are released or over. */
export class HeldLeases {
  private readonly leases = new Map<string, HeldLease>();
  private sweepAt = SWEEP_FROM;

  constructor(private readonly isOver: (lease: HeldLease) => boolean) {}

  /** How many are remembered. */
  get size(): number {
    return this.leases.size;
  }

  /** One that is not over; what is over is forgotten. */
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

  /** Whose a value of a key is, if it is ours. */
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
