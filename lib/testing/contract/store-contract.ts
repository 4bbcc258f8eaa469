import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { registerMultiKeyContract } from './multi-key-contract.js';
import { registerQueueContract } from './queue-contract.js';
import { registerSharingContract } from './sharing-contract.js';
import { registerTokenContract } from './token-contract.js';
import { LONG_MS, StoreFixture, type FixtureTest, type StoreUnderTest, TIMEOUT_MS } from './store-fixture.js';

/**
 * What {@link registerStoreContract} is made of.
 *
 * @publicApi
 */
export interface StoreContractOptions {
  /** Makes a store for one test. Its keys are used by nobody else. */
  readonly createStore: () => Promise<StoreUnderTest>;
  /** The test runner's. */
  readonly describe: (name: string, body: () => void) => unknown;
  /** The test runner's. */
  readonly it: (name: string, body: () => Promise<void>) => unknown;
}

let contracts = 0;

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
  const test: FixtureTest = (name, body) => {
    it(name, async () => {
      const under = await createStore();
      contracts += 1;
      try {
        await body(new StoreFixture(under, `${contracts}`));
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
      ok(reply.remainingMs > 5_000 && reply.remainingMs <= 10_000 + bench.surplusMs, `${reply.remainingMs} ms`);
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
      strictEqual(await bench.release('ann', bench.shortMs), true);
      strictEqual(await bench.statusOf('bob'), 'held');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });
  });

  describe('expiry', () => {
    test('a lease that runs out frees the key', async (bench) => {
      await bench.ask('ann', bench.shortMs);
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('after a takeover the old owner neither releases nor extends', async (bench) => {
      await bench.ask('ann', bench.shortMs);
      await bench.outlast(bench.shortMs);
      await bench.ask('bob');
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
      strictEqual(await bench.release('ann'), false);
      strictEqual(await bench.statusOf('cid'), 'held');
      strictEqual(await bench.release('bob'), true);
    });
  });

  describe('extend', () => {
    test('gives a new lease', async (bench) => {
      await bench.ask('ann', bench.shortMs);
      strictEqual(await bench.extend('ann', LONG_MS), 'renewed');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('never makes a lease shorter', async (bench) => {
      await bench.ask('ann', LONG_MS);
      strictEqual(await bench.extend('ann', bench.shortMs), 'renewed');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('of what is gone or never was is lost', async (bench) => {
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
    });

    test('answers a batch one by one, in order', async (bench) => {
      await bench.ask('ann');
      const of = (owner: string) => ({ ...bench.of(owner), leaseMs: LONG_MS });
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
      if (!bench.under.store.capabilities.idempotentAcquire) return;
      const first = await bench.ask('ann');
      ok(first.status === 'granted');
      // How many tokens were set aside with it need not be known any more.
      deepStrictEqual(await bench.ask('ann'), { ...first, tokens: 1 });
    });

    test('a repeated ask gives the lease its full length back, and never shortens it', async (bench) => {
      if (!bench.under.store.capabilities.idempotentAcquire) return;
      await bench.ask('ann', bench.shortMs);
      await bench.ask('ann', LONG_MS);
      await bench.ask('ann', bench.shortMs);
      await bench.outlast(bench.shortMs);
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
      strictEqual(info.holder, bench.instanceId);
      strictEqual(info.token, reply.token);
      ok(info.remainingMs > 5_000 && info.remainingMs <= 10_000 + bench.surplusMs, `${info.remainingMs} ms`);
    });
  });

  registerTokenContract(test, describe);
  registerQueueContract(test, describe);
  registerMultiKeyContract(test, describe);
  registerSharingContract(test, describe);
}
