import { ok, strictEqual } from 'node:assert/strict';
import type { Clock } from '../core/clock.js';
import type { AskReply, LockStore } from '../core/lock-store.js';

/**
 * A store in front of the contract.
 *
 * @publicApi
 */
export interface StoreUnderTest {
  readonly store: LockStore;
  /** The clock that the store was made with. */
  readonly clock: Clock;
  /** Lets time pass, for the clock and for the store alike. */
  pass(ms: number): Promise<void>;
  /** Ends all that was opened. */
  close(): Promise<void>;
}

/** A lease that outlives any test. */
export const LONG_MS = 60_000;
export const SHORT_MS = 100;
export const TIMEOUT_MS = 1_000;

/** One test's view of the store: keys of its own, one owner for each name. */
export class StoreBench {
  readonly key: string;

  constructor(
    readonly under: StoreUnderTest,
    id: string,
  ) {
    this.key = `{contract}:${process.pid}:${id}`;
  }

  ask(owner: string, leaseMs: number = LONG_MS, expiresInMs: number = TIMEOUT_MS): Promise<AskReply> {
    const expiresAt = this.under.clock.now() + expiresInMs;
    return this.under.store.ask({
      ...this.of(owner),
      mode: 'exclusive',
      leaseMs,
      queue: false,
      expiresAt,
    });
  }

  async statusOf(owner: string): Promise<string> {
    return (await this.ask(owner)).status;
  }

  async tokenFor(owner: string, leaseMs?: number): Promise<number> {
    const reply = await this.ask(owner, leaseMs);
    strictEqual(reply.status, 'granted');
    ok(typeof reply.token === 'number', 'a store with fencing gives a number with every grant');
    return reply.token;
  }

  release(owner: string, keepMs = 0): Promise<boolean> {
    return this.under.store.release({ ...this.of(owner), keepMs });
  }

  async extend(owner: string, leaseMs: number): Promise<string> {
    const [reply] = await this.under.store.extend([{ ...this.of(owner), leaseMs }]);
    return reply;
  }

  private of(owner: string) {
    return { keys: [this.key], owner: `${owner}:1` };
  }
}
