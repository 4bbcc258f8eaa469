import type { Clock } from '../../clock/clock.js';

/** The unit of the expiry in a key: seconds or milliseconds since 1970. */
export type TimestampUnit = 's' | 'ms';

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

/** When a lease expires, on the protocol's clock and on the monotonic clock. */
type ExpiryMoment = Pick<Expiry, 'value' | 'overAt'>;

/**
 * Values that are in the other unit. `ms`: they read as January to April 1970, and are seconds of the years 2001 to
 * 2286. `s`: they read as a time from the year 5138 on, and are milliseconds from 1973 on.
 */
const OTHER_UNIT = { ms: { from: 1e9, to: 1e10 }, s: { from: 1e11, to: Infinity } };

/** Makes and reads expiries on the protocol's clock: each client's own wall clock, in whole seconds or milliseconds. */
export class ExpiryClock {
  readonly unitMs: number;

  constructor(
    readonly clock: Clock,
    readonly unit: TimestampUnit,
  ) {
    this.unitMs = unit === 's' ? 1_000 : 1;
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

  /** Returns an expiry that replaces the one of a held lease. @param least the lowest value. */
  nextExpiry(lease: ExpiryMoment, leaseMs: number, least = 0): Expiry {
    const now = this.clock.now();
    // If our wall clock was set back since, those of the others were not: count on from the old value by the monotonic
    // clock.
    const onward = Math.ceil((now + leaseMs - lease.overAt) / this.unitMs);
    const value = Math.max(this.expiryAfter(leaseMs).value, lease.value + onward, least);
    const onwardMs = lease.overAt - now + (value - lease.value) * this.unitMs;
    // It is over as soon as one of the two clocks says so.
    const lengthMs = Math.min(onwardMs, value * this.unitMs - this.clock.wallTime());
    return { value, overAt: now + lengthMs, lengthMs, ttl: Math.max(1, Math.ceil(lengthMs / this.unitMs)) };
  }

  /** Returns whether a lease of ours is over: from now ≥ value on, because some clients take over then. */
  isOver({ value, overAt }: ExpiryMoment): boolean {
    return this.now() >= value || this.clock.now() >= overAt;
  }

  /** Returns whether a key's value may be taken over: now > value. A value that is not a timestamp never expires. */
  isExpired(held: string): boolean {
    const value = this.read(held);
    return value !== undefined && this.now() > value;
  }

  /** Returns in how many milliseconds {@link isExpired} becomes true. Undefined for a value that is not a timestamp. */
  expiresInMs(held: string): number | undefined {
    const value = this.read(held);
    return value === undefined ? undefined : this.untilMs(Math.floor(value) + 1);
  }

  /** Returns the time until a value, in milliseconds. Not negative. */
  untilMs(value: number): number {
    return Math.max(0, value * this.unitMs - this.clock.wallTime());
  }

  /** Returns the timestamp in a value, or undefined if the value is not one. Some clients write a fraction. */
  read(held: string): number | undefined {
    if (!/^\d+(?:\.\d*)?$/.test(held)) return undefined;
    const value = Number(held);
    // Seconds in a key of milliseconds would all read as expired since 1970.
    const { from, to } = OTHER_UNIT[this.unit];
    return value >= from && value < to ? undefined : value;
  }
}
