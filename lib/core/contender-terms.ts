import type { Clock } from './clock.js';
import type { StoreGrant } from './grant.js';
import type { LockMode, LockStore } from './lock-store.js';
import type { LastWord } from './refusal.js';
import type { Releaser } from './releaser.js';
import type { StoreHealth } from './store-health.js';

/** What a contender asks with. */
export interface ContenderTools {
  readonly store: Pick<LockStore, 'ask' | 'capabilities'>;
  readonly clock: Clock;
  readonly releaser: Pick<Releaser, 'releaseBehind'>;
  readonly health: StoreHealth;
  readonly requestTimeoutMs: number;
  /** For one ask of that principal's. */
  /** @param principal who is known by it; nobody, if all of one ask is known by it. */
  nextOwner(principal?: Principal): string;
}

/** For whom a contender asks. */
export interface Principal {
  readonly resource: string;
  readonly key: string;
  readonly mode: LockMode;
  /** Whether anybody would wait in the store's queue. */
  readonly patient: boolean;
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
  heard(word: LastWord, limit: number): void;
  /** Nothing that was asked is unanswered any more. */
  settled(): void;
}
