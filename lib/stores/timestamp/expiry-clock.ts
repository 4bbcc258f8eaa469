import type { Clock } from '../../core/time/clock.js';
import type { TimestampUnit } from './timestamp-options.js';

/** An expiry, as it is written into a key. */
export interface Expiry {
  /** The last moment of the lease, in the protocol's unit since 1970. */
  readonly value: number;
  /** The same moment on the monotonic clock. */
  readonly overAt: number;
  /** The lease from when the expiry was made, in milliseconds. */
  readonly lengthMs: number;
  /** The key's own TTL in the protocol's unit, for EXPIRE or PEXPIRE. */
  readonly ttl: number;
}

/** When a lease is over, by the protocol's clock and by the monotonic clock. */
type ExpiryMoment = Pick<Expiry, 'value' | 'overAt'>;

/**
 * How far the value that the loser of a race writes may differ from the holder's, in milliseconds. The loser has read
 * the expired value before the holder replaced it, and computes its own value within moments of that, on its own clock.
 */
const RACE_TOLERANCE_MS = 2_000;

/**
 * Values that are in the other unit. `ms`: they read as January to April 1970, and are seconds of the years 2001 to
 * 2286. `s`: they read as a time from the year 5138 on, and are milliseconds from 1973 on.
 */
const OTHER_UNIT = { ms: { from: 1e9, to: 1e10 }, s: { from: 1e11, to: Infinity } };

/** Makes and reads expiries by the protocol's clock: each client's own wall clock, in whole seconds or milliseconds. */
export class ExpiryClock {
  readonly unitMs: number;
  /** {@link RACE_TOLERANCE_MS} in the protocol's unit. */
  readonly tolerance: number;

  constructor(
    private readonly clock: Clock,
    readonly unit: TimestampUnit,
  ) {
    this.unitMs = unit === 's' ? 1_000 : 1;
    this.tolerance = RACE_TOLERANCE_MS / this.unitMs;
  }

  now(): number {
    return Math.floor(this.clock.wallTime() / this.unitMs);
  }

  /** Returns the expiry of a new lease: now + lease + 1, because `now` drops the fraction of the present unit. */
  expiryAfter(leaseMs: number): Expiry {
    const wallTime = this.clock.wallTime();
    const ttl = Math.ceil(leaseMs / this.unitMs) + 1;
    const value = Math.floor(wallTime / this.unitMs) + ttl;
    const lengthMs = value * this.unitMs - wallTime;
    return { value, ttl, lengthMs, overAt: this.clock.now() + lengthMs };
  }

  /** Returns an expiry that replaces the one of a held lease. */
  nextExpiry(lease: ExpiryMoment, leaseMs: number): Expiry {
    // If our wall clock was set back since, those of the others were not: count on from the old value by the monotonic
    // clock.
    const onward = Math.ceil((this.clock.now() + leaseMs - lease.overAt) / this.unitMs);
    return this.expiryAt(lease, Math.max(this.expiryAfter(leaseMs).value, lease.value + onward));
  }

  /** Returns the same as {@link nextExpiry}, but never a shorter lease than the held one. */
  laterExpiry(lease: ExpiryMoment, leaseMs: number): Expiry {
    const expiry = this.nextExpiry(lease, leaseMs);
    return expiry.value > lease.value ? expiry : this.expiryAt(lease, lease.value);
  }

  /** Returns whether a lease of ours is over: from now ≥ value on, because some clients take over then. */
  isOver({ value, overAt }: ExpiryMoment): boolean {
    return this.now() >= value || this.clock.now() >= overAt;
  }

  /** Returns the rest of a lease in milliseconds. Not negative. */
  restMs({ value }: Pick<Expiry, 'value'>): number {
    return Math.max(0, value * this.unitMs - this.clock.wallTime());
  }

  /** Returns whether a key's value may be taken over: now > value. A value that is no time never expires. */
  isExpired(held: string): boolean {
    const value = this.read(held);
    return value !== undefined && this.now() > value;
  }

  /** Returns in how many milliseconds {@link isExpired} becomes true. Undefined for a value that is no time. */
  expiresInMs(held: string): number | undefined {
    const value = this.read(held);
    return value === undefined ? undefined : this.restMs({ value: Math.floor(value) + 1 });
  }

  /** Returns the time in a value, or undefined if it is none. Some clients write a fraction. */
  read(held: string): number | undefined {
    if (!/^\d+(?:\.\d*)?$/.test(held)) return undefined;
    const value = Number(held);
    // Seconds in a key of milliseconds would all read as expired since 1970.
    const { from, to } = OTHER_UNIT[this.unit];
    return value >= from && value < to ? undefined : value;
  }

  /** Returns the expiry of a value that replaces the lease's. It is over as soon as one of the two clocks says so. */
  private expiryAt(lease: ExpiryMoment, value: number): Expiry {
    const now = this.clock.now();
    const onwardMs = lease.overAt - now + (value - lease.value) * this.unitMs;
    const lengthMs = Math.min(onwardMs, value * this.unitMs - this.clock.wallTime());
    return { value, overAt: now + lengthMs, lengthMs, ttl: Math.max(1, Math.ceil(lengthMs / this.unitMs)) };
  }
}
