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

/** When a lease expires, on the protocol's clock and on the monotonic clock. */
type ExpiryMoment = Pick<Expiry, 'value' | 'overAt'>;

/**
 * Which values of another client count as those of the loser of a race, which the holder has won. The loser has read
 * the expired value before the holder replaced it, and overwrites the holder's value with its own.
 */
export interface RaceWindow {
  /** How far the loser's value may differ from the holder's, in the protocol's unit. */
  readonly tolerance: number;
  /** Until when a value can only be a loser's, on the monotonic clock. Later it can also be another holder's. */
  readonly until: number;
}

/** The most by which the loser's value may differ from the holder's, in milliseconds. */
const MAX_TOLERANCE_MS = 2_000;

/**
 * The shortest lease in which the loser of a race is tolerated. Another client takes over when the loser's value is
 * over, a lease after the loser has computed it. In the first half of the holder's lease that is impossible, unless the
 * GETSET was under way for longer than the other half. A busy machine delays a request that long only in short leases.
 */
const SHORTEST_RACE_MS = 1_000;

/**
 * Values that are in the other unit. `ms`: they read as January to April 1970, and are seconds of the years 2001 to
 * 2286. `s`: they read as a time from the year 5138 on, and are milliseconds from 1973 on.
 */
const OTHER_UNIT = { ms: { from: 1e9, to: 1e10 }, s: { from: 1e11, to: Infinity } };

/** Makes and reads expiries on the protocol's clock: each client's own wall clock, in whole seconds or milliseconds. */
export class ExpiryClock {
  readonly unitMs: number;

  constructor(
    private readonly clock: Clock,
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

  /** Returns how long, and by how much, the loser of a race for a new lease may change its value. */
  raceFor({ ttl, overAt, lengthMs }: Expiry): RaceWindow {
    const leaseMs = (ttl - 1) * this.unitMs;
    if (leaseMs < SHORTEST_RACE_MS) return { tolerance: 0, until: -Infinity };
    const tolerance = Math.min(MAX_TOLERANCE_MS, leaseMs / 4) / this.unitMs;
    return { tolerance, until: overAt - lengthMs + leaseMs / 2 };
  }

  /** Returns whether the value of a race's loser still counts as ours. */
  isInRace({ raceUntil }: { readonly raceUntil: number }): boolean {
    return this.clock.now() < raceUntil;
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

  /** Returns the remaining lease in milliseconds. Not negative. */
  restMs({ value }: Pick<Expiry, 'value'>): number {
    return Math.max(0, value * this.unitMs - this.clock.wallTime());
  }

  /** Returns whether a key's value may be taken over: now > value. A value that is not a timestamp never expires. */
  isExpired(held: string): boolean {
    const value = this.read(held);
    return value !== undefined && this.now() > value;
  }

  /** Returns in how many milliseconds {@link isExpired} becomes true. Undefined for a value that is not a timestamp. */
  expiresInMs(held: string): number | undefined {
    const value = this.read(held);
    return value === undefined ? undefined : this.restMs({ value: Math.floor(value) + 1 });
  }

  /** Returns the timestamp in a value, or undefined if the value is not one. Some clients write a fraction. */
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
