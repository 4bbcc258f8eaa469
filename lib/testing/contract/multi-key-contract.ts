import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { modesOf } from '../../core/store/lock-mode.js';
import type { AcquireReply } from '../../core/store/lock-store.js';
import { type FixtureTest, LONG_MS, type StoreFixture, TIMEOUT_MS } from './store-fixture.js';

/** The tests that every store has to pass which locks several keys in one ask: others pass them by saying that they do not. */
export function registerMultiKeyContract(
  register: FixtureTest,
  describe: (name: string, body: () => void) => unknown,
): void {
  const test: FixtureTest = (name, body) =>
    register(name, async (bench) => {
      if ((bench.under.store.capabilities.maxKeys ?? 1) > 1) await body(bench);
    });

  describe('an ask for several keys', () => {
    test('is granted all of them, each a lock like any other, with one token', async (bench) => {
      const [one, two] = keysOf(bench, 2);
      const before = await bench.tokenFor('zoe');
      const reply = await askFor(bench, 'ann', [one, two]);
      ok(reply.status === 'granted');
      strictEqual(reply.tokens, 1);
      for (const key of [one, two]) {
        strictEqual(await statusAt(bench, key), 'held');
        const state = await bench.under.store.inspect(key);
        strictEqual(state?.token, reply.token);
        ok(Number(state?.remainingMs) > LONG_MS / 2);
      }
      strictEqual(await bench.release('ann', 0, { key: one }), true);
      strictEqual(await statusAt(bench, two), 'held');
      const next = await bench.ask('bob', LONG_MS, TIMEOUT_MS, { key: one });
      ok(next.status === 'granted');
      if (bench.under.store.capabilities.fencing)
        ok(before < Number(reply.token) && Number(reply.token) < Number(next.token));
    });

    test('is granted none of them if one is held, and names that', async (bench) => {
      const [one, two, three] = keysOf(bench, 3);
      await bench.ask('bob', 10_000, TIMEOUT_MS, { key: two });
      const reply = await askFor(bench, 'ann', [one, two, three]);
      ok(reply.status === 'held');
      deepStrictEqual([reply.queued, reply.key], [false, two]);
      ok(reply.remainingMs !== undefined && reply.remainingMs > 5_000 && reply.remainingMs <= 10_000 + bench.surplusMs);
      for (const key of [one, three]) strictEqual(await statusAt(bench, key), 'granted');
    });

    test('does nothing after its deadline', async (bench) => {
      const [one, two] = keysOf(bench, 2);
      const reply = await bench.ask('ann', LONG_MS, -1, { keys: [one, two] });
      strictEqual(reply.status, 'expired');
      for (const key of [one, two]) strictEqual(await statusAt(bench, key), 'granted');
    });

    test('that is made again is granted again', async (bench) => {
      const keys = keysOf(bench, 2);
      strictEqual((await askFor(bench, 'ann', keys)).status, 'granted');
      strictEqual((await askFor(bench, 'ann', keys)).status, 'granted');
      for (const key of keys) strictEqual(await bench.release('ann', 0, { key }), true);
      for (const key of keys) strictEqual(await statusAt(bench, key), 'granted');
    });

    test('overtakes nobody who waits for one of them', async (bench) => {
      if (!bench.under.store.capabilities.queue) return;
      const [one, two] = keysOf(bench, 2);
      await bench.listen();
      bench.sharing('shared', 'ann', 'bob');
      await bench.ask('bob', LONG_MS, TIMEOUT_MS, { key: two });
      const waiting = await bench.ask('cid', LONG_MS, TIMEOUT_MS, { key: two });
      ok(waiting.status === 'held' && waiting.queued);
      const reply = await askFor(bench, 'ann', [one, two]);
      ok(reply.status === 'held');
      strictEqual(reply.key, two);
      strictEqual(await bench.release('bob', 0, { key: two }), true);
      deepStrictEqual(await bench.handedTo(1), ['cid']);
      strictEqual(await bench.release('cid', 0, { key: two }), true);
      strictEqual((await askFor(bench, 'ann', [one, two])).status, 'granted');
    });

    test('shares what may be shared', async (bench) => {
      if (!modesOf(bench.under.store.capabilities).includes('shared')) return;
      const [one, two] = keysOf(bench, 2);
      bench.sharing('shared', 'ann', 'bob');
      await bench.ask('bob', LONG_MS, TIMEOUT_MS, { key: two });
      strictEqual((await askFor(bench, 'ann', [one, two])).status, 'granted');
      for (const key of [one, two]) strictEqual(await statusAt(bench, key), 'held');
      strictEqual(await bench.release('ann', 0, { key: one }), true);
      strictEqual(await bench.release('ann', 0, { key: two }), true);
      strictEqual(await statusAt(bench, one), 'granted');
      strictEqual(await statusAt(bench, two), 'held');
      strictEqual((await askFor(bench, 'cid', [two])).status, 'held');
    });

    test('takes one permit of each, if there is one', async (bench) => {
      if (!modesOf(bench.under.store.capabilities).includes('permits')) return;
      const [one, two] = keysOf(bench, 2);
      bench.sharing(2, 'ann', 'bob', 'cid');
      bench.sharing(3, 'dan');
      await bench.ask('bob', LONG_MS, TIMEOUT_MS, { key: two });
      const differing = await askFor(bench, 'dan', [one, two]);
      ok(differing.status === 'permits-mismatch');
      deepStrictEqual([differing.permits, differing.key], [2, two]);
      strictEqual((await askFor(bench, 'ann', [one, two])).status, 'granted');
      const refused = await askFor(bench, 'cid', [one, two]);
      ok(refused.status === 'held');
      strictEqual(refused.key, two);
    });
  });
}

function keysOf({ key }: StoreFixture, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${key}:${i}`);
}

function askFor(bench: StoreFixture, owner: string, keys: readonly string[]): Promise<AcquireReply> {
  return bench.ask(owner, LONG_MS, TIMEOUT_MS, { keys, queue: false });
}

/** Whether somebody new could have it now. */
async function statusAt(bench: StoreFixture, key: string): Promise<string> {
  const stranger = `stranger at ${key}`;
  const { status } = await bench.ask(stranger, LONG_MS, TIMEOUT_MS, { key, queue: false });
  if (status === 'granted') await bench.release(stranger, 0, { key });
  return status;
}
