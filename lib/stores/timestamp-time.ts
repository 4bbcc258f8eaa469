import type { Clock } from '../core/clock.js';
import type { OwnLease, Stamp } from './own-leases.js';
import type { TimestampUnit } from './timestamp-options.js';

/**
 * How far beside the holder's value one may lie that the loser of a race has left there. A loser has read the expired
 * value before the holder replaced it, and has computed its own within moments of that, on a clock of its own.
 */
const BESIDE_MS = 2_000;

/** Reads as a time in milliseconds of January to April 1970, or as one in seconds of the years 2001 to 2286. */
const SECONDS_FROM = 1e9;
const SECONDS_TO = 1e10;

/** The clock of the protocol: each client's own wall clock, in whole seconds or milliseconds. */
export class ProtocolTime {
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
  stamp(leaseMs: number): Stamp {
    const wallTime = this.clock.wallTime();
    const ttl = Math.ceil(leaseMs / this.unitMs) + 1;
    const value = Math.floor(wallTime / this.unitMs) + ttl;
    const lengthMs = value * this.unitMs - wallTime;
    return { value, ttl, lengthMs, overAt: this.clock.now() + lengthMs };
  }

  /** A stamp for a lease that is held: never a shorter one. */
  laterStamp(lease: OwnLease, leaseMs: number): Stamp {
    const stamp = this.stamp(leaseMs);
    if (stamp.value > lease.value) return stamp;
    const { value, overAt, lengthMs } = lease;
    return { value, overAt, lengthMs, ttl: value - this.now() };
  }

  /** Whether we may not believe in it any more: from now ≥ value on, for there are clients that take over then. */
  isOver({ value, overAt }: Pick<Stamp, 'value' | 'overAt'>): boolean {
    return this.now() >= value || this.clock.now() >= overAt;
  }

  /** How long a lease lasts still; not negative. */
  restMs({ value }: Pick<Stamp, 'value'>): number {
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
    return this.unit === 'ms' && value >= SECONDS_FROM && value < SECONDS_TO ? undefined : value;
  }
}
