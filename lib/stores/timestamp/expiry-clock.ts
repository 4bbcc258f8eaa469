import type { Clock } from '../../core/time/clock.js';
import type { HeldLease, Expiry } from './held-leases.js';
import type { TimestampUnit } from './timestamp-options.js';

/**
 * How far beside the holder's value one may lie that the loser of a race has left there. A loser has read the expired
 * value before the holder replaced it, and has computed its own within moments of that, on a clock of its own.
 */
const BESIDE_MS = 2_000;

/**
 * What a value in the other unit looks like. In milliseconds: as a time of January to April 1970, if it is one in seconds of
 * the years 2001 to 2286. In seconds: as a time from the year 5138 on, if it is one in milliseconds from 1973 on.
 */
const OTHER_UNIT = { ms: { from: 1e9, to: 1e10 }, s: { from: 1e11, to: Infinity } };

/** The clock of the protocol: each client's own wall clock, in whole seconds or milliseconds. */
export class ExpiryClock {
  readonly unitMs: number;
  /** {@link BESIDE_MS}, in the protocol's unit. */
  readonly beside: number;

  constructor(
    private readonly clock: Clock,
    readonly unit: TimestampUnit,
  ) {
    this.unitMs = unit === 's' ? 1_000 : 1;
    this.beside = BESIDE_MS / this.unitMs;
  }

  now(): number {
    return Math.floor(this.clock.wallTime() / this.unitMs);
  }

  /** now + lease + 1: whole units cut off the rest of the present one, and the lease has to last to its end. */
  expiryAfter(leaseMs: number): Expiry {
    const wallTime = this.clock.wallTime();
    const ttl = Math.ceil(leaseMs / this.unitMs) + 1;
    const value = Math.floor(wallTime / this.unitMs) + ttl;
    const lengthMs = value * this.unitMs - wallTime;
    return { value, ttl, lengthMs, overAt: this.clock.now() + lengthMs };
  }

  /**
   * A stamp in place of one that is in the key already. If our wall clock was set back since that was made, those of the
   * others were not: so it is counted on from there by the clock that nobody sets.
   */
  nextExpiry(lease: HeldLease, leaseMs: number): Expiry {
    const onward = Math.ceil((this.clock.now() + leaseMs - lease.overAt) / this.unitMs);
    return this.expiryOf(lease, Math.max(this.expiryAfter(leaseMs).value, lease.value + onward));
  }

  /** The same, but never a shorter one. */
  laterExpiry(lease: HeldLease, leaseMs: number): Expiry {
    const stamp = this.nextExpiry(lease, leaseMs);
    return stamp.value > lease.value ? stamp : this.expiryOf(lease, lease.value);
  }

  /** Whether we may not believe in it any more: from now ≥ value on, for there are clients that take over then. */
  isOver({ value, overAt }: Pick<Expiry, 'value' | 'overAt'>): boolean {
    return this.now() >= value || this.clock.now() >= overAt;
  }

  /** How long a lease lasts still; not negative. */
  restMs({ value }: Pick<Expiry, 'value'>): number {
    return Math.max(0, value * this.unitMs - this.clock.wallTime());
  }

  /** Whether what is in a key is over for others: when now > value. What does not read as a time never is. */
  isExpired(held: string): boolean {
    const value = this.read(held);
    return value !== undefined && this.now() > value;
  }

  /** When {@link isExpired} will be true, in milliseconds from now; undefined for what does not read as a time. */
  expiresInMs(held: string): number | undefined {
    const value = this.read(held);
    return value === undefined ? undefined : this.restMs({ value: Math.floor(value) + 1 });
  }

  /** The time in a value; some clients write it with a fraction. */
  read(held: string): number | undefined {
    if (!/^\d+(?:\.\d*)?$/.test(held)) return undefined;
    const value = Number(held);
    // Seconds, where everybody should write milliseconds, would all look as if they were over since 1970.
    const { from, to } = OTHER_UNIT[this.unit];
    return value >= from && value < to ? undefined : value;
  }

  /** A value in place of the lease's, believed in for as long as both clocks allow. */
  private expiryOf(lease: HeldLease, value: number): Expiry {
    const now = this.clock.now();
    const onwardMs = lease.overAt - now + (value - lease.value) * this.unitMs;
    const lengthMs = Math.min(onwardMs, value * this.unitMs - this.clock.wallTime());
    return { value, overAt: now + lengthMs, lengthMs, ttl: Math.max(1, Math.ceil(lengthMs / this.unitMs)) };
  }
}
