import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
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

/**
 * What {@link registerStoreContract} is made of.
 *
 * @publicApi
 */
export interface StoreContractOptions {
  /** Makes a store for one test. Its keys are used by nobody else. */
  createStore(): Promise<StoreUnderTest>;
  /** The test runner's. */
  describe(name: string, body: () => void): unknown;
  /** The test runner's. */
  it(name: string, body: () => Promise<void>): unknown;
}

/** A lease that outlives any test. */
const LONG_MS = 60_000;
const SHORT_MS = 100;
const TIMEOUT_MS = 1_000;

let contracts = 0;

/** One test's view of the store: keys of its own, one owner for each name. */
class Bench {
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
    return reply as string;
  }

  private of(owner: string) {
    return { keys: [this.key], owner: `${owner}:1` };
  }
}

/**
 * Registers the tests that every store has to pass, with any test runner.
 *
 * ```ts
 * describe('my store', () => registerStoreContract({ createStore, describe, it }));
 * ```
 *
 * @publicApi
 */
export function registerStoreContract({ createStore, describe, it }: StoreContractOptions): void {
  const test = (name: string, body: (bench: Bench) => Promise<void>): void => {
    it(name, async () => {
      const under = await createStore();
      contracts += 1;
      try {
        await body(new Bench(under, `${contracts}`));
      } finally {
        await under.close();
      }
    });
  };

  describe('exclusion', () => {
    test('a free key is granted, and to nobody else', async (bench) => {
      strictEqual(await bench.statusOf('ann'), 'granted');
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('a refusal tells the remaining life of the lease', async (bench) => {
      await bench.ask('ann', 10_000);
      const reply = await bench.ask('bob');
      ok(reply.status === 'held' && reply.remainingMs !== undefined);
      ok(reply.remainingMs > 5_000 && reply.remainingMs <= 10_000, `${reply.remainingMs} ms`);
    });

    test('of many who ask at once one is granted', async (bench) => {
      const names = Array.from({ length: 20 }, (_, i) => `asker${i}`);
      const statuses = await Promise.all(names.map((name) => bench.statusOf(name)));
      strictEqual(statuses.filter((status) => status === 'granted').length, 1);
    });
  });

  describe('release', () => {
    test('frees the key for the next', async (bench) => {
      await bench.ask('ann');
      strictEqual(await bench.release('ann'), true);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('of what is not held is answered, and harms nothing', async (bench) => {
      strictEqual(await bench.release('ann'), false);
      await bench.ask('ann');
      strictEqual(await bench.release('bob'), false);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('may run twice', async (bench) => {
      await bench.ask('ann');
      strictEqual(await bench.release('ann'), true);
      await bench.ask('bob');
      strictEqual(await bench.release('ann'), false);
      strictEqual(await bench.statusOf('cid'), 'held');
    });

    test('can keep the key closed for a while, to expire by itself', async (bench) => {
      await bench.ask('ann');
      strictEqual(await bench.release('ann', SHORT_MS), true);
      strictEqual(await bench.statusOf('bob'), 'held');
      await bench.under.pass(SHORT_MS + 50);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });
  });

  describe('expiry', () => {
    test('a lease that runs out frees the key', async (bench) => {
      await bench.ask('ann', SHORT_MS);
      await bench.under.pass(SHORT_MS + 50);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('after a takeover the old owner neither releases nor extends', async (bench) => {
      await bench.ask('ann', SHORT_MS);
      await bench.under.pass(SHORT_MS + 50);
      await bench.ask('bob');
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
      strictEqual(await bench.release('ann'), false);
      strictEqual(await bench.statusOf('cid'), 'held');
      strictEqual(await bench.release('bob'), true);
    });
  });

  describe('extend', () => {
    test('gives a new lease', async (bench) => {
      await bench.ask('ann', SHORT_MS);
      strictEqual(await bench.extend('ann', LONG_MS), 'renewed');
      await bench.under.pass(SHORT_MS + 50);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('never makes a lease shorter', async (bench) => {
      await bench.ask('ann', LONG_MS);
      strictEqual(await bench.extend('ann', SHORT_MS), 'renewed');
      await bench.under.pass(SHORT_MS + 50);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('of what is gone or never was is lost', async (bench) => {
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
    });

    test('answers a batch one by one, in order', async (bench) => {
      await bench.ask('ann');
      const of = (owner: string) => ({ keys: [bench.key], owner: `${owner}:1`, leaseMs: LONG_MS });
      const replies = await bench.under.store.extend([of('bob'), of('ann'), of('cid')]);
      deepStrictEqual(replies, ['lost', 'renewed', 'lost']);
      deepStrictEqual(await bench.under.store.extend([]), []);
    });
  });

  describe('asks on the way', () => {
    test('an ask past its deadline does nothing', async (bench) => {
      strictEqual((await bench.ask('ann', LONG_MS, -TIMEOUT_MS)).status, 'expired');
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('a repeated ask is answered as before', async (bench) => {
      if (!bench.under.store.capabilities.idempotentAsk) return;
      const first = await bench.ask('ann');
      deepStrictEqual(await bench.ask('ann'), first);
    });

    test('a repeated ask gives the lease its full length back, and never shortens it', async (bench) => {
      if (!bench.under.store.capabilities.idempotentAsk) return;
      await bench.ask('ann', SHORT_MS);
      await bench.ask('ann', LONG_MS);
      await bench.ask('ann', SHORT_MS);
      await bench.under.pass(SHORT_MS + 50);
      strictEqual(await bench.statusOf('bob'), 'held');
    });
  });

  describe('inspect', () => {
    test('tells holder, remaining life and token, and null for a free key', async (bench) => {
      const { store } = bench.under;
      strictEqual(await store.inspect(bench.key), null);
      const reply = await bench.ask('ann', 10_000);
      const info = await store.inspect(bench.key);
      ok(info !== null && reply.status === 'granted');
      strictEqual(info.holder, 'ann');
      strictEqual(info.token, reply.token);
      ok(info.remainingMs > 5_000 && info.remainingMs <= 10_000, `${info.remainingMs} ms`);
    });
  });

  describe('fencing', () => {
    test('tokens rise with every grant, also over releases and expiries', async (bench) => {
      if (!bench.under.store.capabilities.fencing) return;
      const tokens = [await bench.tokenFor('ann')];
      await bench.release('ann');
      tokens.push(await bench.tokenFor('bob', SHORT_MS));
      await bench.under.pass(SHORT_MS + 50);
      tokens.push(await bench.tokenFor('cid'));
      await bench.release('cid');
      tokens.push(await bench.tokenFor('dot'));
      deepStrictEqual(tokens, [...new Set(tokens)].sort((a, b) => a - b));
      ok(tokens.every(Number.isSafeInteger));
    });
  });

  describe('under contention', () => {
    test('a counter that is read and written apart loses nothing, and its tokens rise', async (bench) => {
      const { fencing } = bench.under.store.capabilities;
      const seen: number[] = [];
      let count = 0;
      const work = async (name: string): Promise<void> => {
        for (let round = 0; round < 25; ) {
          const owner = `${name}${round}`;
          const reply = await bench.ask(owner);
          if (reply.status !== 'granted') continue;
          const read = count;
          await bench.under.store.inspect(bench.key);
          count = read + 1;
          if (reply.token !== undefined) seen.push(reply.token);
          await bench.release(owner);
          round += 1;
        }
      };
      await Promise.all(['ann', 'bob', 'cid', 'dot'].map(work));
      strictEqual(count, 100);
      if (fencing) deepStrictEqual(seen, [...new Set(seen)].sort((a, b) => a - b));
    });
  });
}
