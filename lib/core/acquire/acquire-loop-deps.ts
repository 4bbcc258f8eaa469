import type { Clock } from '../time/clock.js';
import type { StoreGrant } from '../lease/grant.js';
import type { LockMode, LockStore } from '../store/lock-store.js';
import type { LastReply } from './acquire-errors.js';
import type { Releaser } from '../lease/releaser.js';
import type { StoreHealth } from '../store/store-health.js';

/** What a contender asks with. */
export interface AcquireLoopDeps {
  readonly store: Pick<LockStore, 'acquire' | 'capabilities'>;
  readonly clock: Clock;
  readonly releaser: Pick<Releaser, 'releaseBehind'>;
  readonly health: StoreHealth;
  readonly requestTimeoutMs: number;
  /** For one ask of that principal's. */
  /** @param principal who is known by it; nobody, if all of one ask is known by it. */
  nextOwner(principal?: AcquireLoopOwner): string;
}

/** For whom a contender asks. */
export interface AcquireLoopOwner {
  readonly resource: string;
  readonly key: string;
  readonly mode: LockMode;
  /** Whether anybody would wait in the store's queue. */
  readonly willWait: boolean;
  /** How many fencing tokens are wanted now. */
  readonly tokens: number;
  /** The lease that is wanted now. */
  readonly leaseMs: number;
  granted(grant: StoreGrant, now: number): void;
  /** Whether that ask's grant is in use. */
  holds(owner: string): boolean;
  /**
   * The store has refused, or has not been heard: that was the last word for whoever has waited for `limit` asks, this one
   * among them; 0 where asking again would not change it. The contender goes on by itself until it is stopped.
   */
  onReply(word: LastReply, limit: number): void;
  /** Nothing that was asked is unanswered any more. */
  settled(): void;
}
