import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { type FixtureTest, DEAD, LONG_MS } from './store-fixture.js';

/** The tests that every store with a queue has to pass: others pass them by saying that they have none. */
export function registerQueueContract(
  register: FixtureTest,
  describe: (name: string, body: () => void) => unknown,
): void {
  const test: FixtureTest = (name, body) =>
    register(name, async (bench) => {
      if (!bench.under.store.capabilities.queue) return;
      await bench.listen();
      await body(bench);
    });

  describe('the queue', () => {
    test('hands a released lock to who waits, first come first served', async (bench) => {
      await bench.ask('ann');
      for (const name of ['bob', 'cid', 'dot']) {
        const reply = await bench.ask(name);
        ok(reply.status === 'held' && reply.queued, JSON.stringify(reply));
      }
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
      await bench.release('bob');
      await bench.handedTo(2);
      await bench.release('cid');
      deepStrictEqual(await bench.handedTo(3), ['bob', 'cid', 'dot']);
      await bench.release('dot');
      strictEqual(await bench.under.store.inspect(bench.key), null);
    });

    test('a lock that was handed over is held, with a lease and tokens of its own', async (bench) => {
      const before = await bench.tokenFor('ann');
      await bench.ask('bob');
      const sentAt = bench.under.clock.now();
      await bench.release('ann');
      await bench.handedTo(1);
      const [handoff] = bench.handoffs;
      ok(handoff.token !== undefined && handoff.token > before);
      strictEqual(handoff.leaseMs, 3_000);
      ok(handoff.grantedAt !== undefined && handoff.grantedAt <= bench.under.clock.now());
      ok(handoff.grantedAt > sentAt - 1_000, 'it was not handed over long ago');
      const info = await bench.under.store.inspect(bench.key);
      strictEqual(info?.token, handoff.token);
      ok(info.remainingMs <= 3_000, `${info.remainingMs} ms`);
      strictEqual(await bench.extend('bob', LONG_MS), 'renewed');
    });

    test('tokens that were set aside with a grant are nobody else’s', async (bench) => {
      const first = await bench.ask('ann');
      ok(first.status === 'granted' && first.token !== undefined);
      strictEqual(first.tokens, 4);
      await bench.ask('bob');
      await bench.release('ann');
      await bench.handedTo(1);
      const { token: second = 0, tokens } = bench.handoffs[0];
      ok(second >= first.token + 4, `${second - first.token}`);
      await bench.release('bob');
      ok((await bench.tokenFor('cid')) >= second + tokens);
    });

    test('asking again keeps the place', async (bench) => {
      await bench.ask('ann');
      for (const name of ['bob', 'cid', 'bob']) await bench.ask(name);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
    });

    test('who releases leaves it, and only this one', async (bench) => {
      await bench.ask('ann');
      for (const name of ['bob', 'cid']) await bench.ask(name);
      strictEqual(await bench.release('bob'), false);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['cid']);
    });

    test('who asks without waiting does not stand in it', async (bench) => {
      await bench.ask('ann');
      const reply = await bench.ask('bob', LONG_MS, 1_000, { queue: false });
      ok(reply.status === 'held' && !reply.queued);
      await bench.release('ann');
      strictEqual(await bench.under.store.inspect(bench.key), null);
      deepStrictEqual(await bench.handedTo(0), []);
    });

    test('passes over instances that nobody listens for any more', async (bench) => {
      await bench.ask('ann');
      for (const name of [DEAD, 'bob']) await bench.ask(name);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
    });

    test('frees the lock where only such instances are left', async (bench) => {
      await bench.ask('ann');
      await bench.ask(DEAD);
      strictEqual(await bench.release('ann'), true);
      strictEqual(await bench.under.store.inspect(bench.key), null);
    });

    test('goes before those who come when the lease of a dead holder is over', async (bench) => {
      await bench.ask('ann', bench.shortMs);
      await bench.ask('bob');
      await bench.outlast(bench.shortMs);
      const reply = await bench.ask('cid', LONG_MS, 1_000, { queue: false });
      strictEqual(reply.status, 'held');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
    });

    test('answers the first in it when the lease of a dead holder is over, instead of telling it', async (bench) => {
      await bench.ask('ann', bench.shortMs);
      for (const name of ['bob', 'cid']) await bench.ask(name);
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'granted');
      await bench.release('bob');
      deepStrictEqual(await bench.handedTo(1), ['cid']);
    });

    test('answers who was handed the lock and asks again, with a full lease', async (bench) => {
      await bench.ask('ann');
      for (const name of ['bob', 'cid']) await bench.ask(name);
      await bench.release('ann');
      await bench.handedTo(1);
      strictEqual(await bench.statusOf('bob'), 'granted');
      const info = await bench.under.store.inspect(bench.key);
      ok(info !== null && info.remainingMs > 3_000, 'the lease was raised');
      await bench.release('bob');
      deepStrictEqual(await bench.handedTo(2), ['bob', 'cid']);
    });

    test('waits for the rest of a minimum hold', async (bench) => {
      await bench.ask('ann');
      await bench.ask('bob');
      strictEqual(await bench.release('ann', bench.shortMs), true);
      strictEqual(await bench.statusOf('cid'), 'held');
      deepStrictEqual(await bench.handedTo(0), []);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
    });
  });
}
