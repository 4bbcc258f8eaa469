import type { Clock } from './clock.js';
import type { LockStore } from './lock-store.js';
import type { PassingLimits } from './tenure.js';
import type { AcquireTerms } from './waiter.js';

/** What an engine is made of. */
export interface EngineParts {
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
export interface EngineTerms extends AcquireTerms {
  readonly reentrant: boolean;
}

/** The resource, and the key it is locked under. */
export interface Target {
  readonly resource: string;
  readonly key: string;
}
