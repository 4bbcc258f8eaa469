import type { Clock } from '../time/clock.js';
import type { LockStore } from '../store/lock-store.js';
import type { PassingLimits } from './local-handoff.js';
import type { WaitOptions } from './waiters.js';

/** What an engine is made of. */
export interface EngineDeps {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  readonly passing: PassingLimits;
  /** How much longer than its lease a lock stays closed that nobody releases. */
  readonly lockDelayMs: number;
  /** The module instance's name, for events. */
  readonly instance: string;
  /** Throws if that is no lease. */
  checkTtl(ttlMs: number): void;
  /** Where one line for each lost lock goes. */
  warn(message: string): void;
}

/** How a lock is asked for; all defaults are filled in. */
export interface AcquireOptions extends WaitOptions {
  readonly reentrant: boolean;
}

/** The resource, and the key it is locked under. */
export interface Target {
  readonly resource: string;
  readonly key: string;
}
