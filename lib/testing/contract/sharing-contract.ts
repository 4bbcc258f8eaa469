import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { type LockModeKind, modesOf } from '../../core/store/lock-mode.js';
import { type FixtureTest, DEAD, LONG_MS } from './store-fixture.js';

/** The tests that every store has to pass for the modes it can lock in. */
export function registerSharingContract(
  register: FixtureTest,
  describe: (name: string, body: () => void) => unknown,
): void {
  const inMode =
    (kind: LockModeKind): FixtureTest =>
    (name, body) =>
      register(name, async (bench) => {
        if (modesOf(bench.under.store.capabilities).includes(kind)) await body(bench);
      });
  const queued =
    (kind: LockModeKind): FixtureTest =>
    (name, body) =>
      inMode(kind)(name, async (bench) => {
        if (bench.under.store.capabilities.queue) await bench.listen().then(() => body(bench));
      });

  describe('a shared lock', () => {
    const test = inMode('shared');
    const testQueue = queued('shared');

    test('is held by many at once, and by nobody alone meanwhile', async (bench) => {
      bench.sharing('shared', 'ann', 'bob');
      for (const name of ['ann', 'bob']) strictEqual(await bench.statusOf(name), 'granted');
      for (const name of ['ann', 'bob']) {
        strictEqual(await bench.statusOf('cid'), 'held');
        strictEqual(await bench.release(name), true);
      }
      strictEqual(await bench.statusOf('cid'), 'granted');
      strictEqual(await bench.statusOf('ann'), 'held');
    });

    test('gives each a lease of its own', async (bench) => {
      bench.sharing('shared', 'ann', 'bob');
      await bench.ask('ann', bench.shortMs);
      await bench.ask('bob');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
      strictEqual(await bench.release('ann'), false);
      strictEqual(await bench.extend('bob', LONG_MS), 'renewed');
      strictEqual(await bench.statusOf('cid'), 'held');
      strictEqual(await bench.release('bob'), true);
      strictEqual(await bench.statusOf('cid'), 'granted');
    });

    test('is free for who wants it alone when the last lease is over', async (bench) => {
      bench.sharing('shared', 'ann', 'bob');
      for (const name of ['ann', 'bob']) await bench.ask(name, bench.shortMs);
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('cid'), 'granted');
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
    });

    test('lasts as long as the last lease of those who have not released it, and no longer', async (bench) => {
      bench.sharing('shared', 'ann', 'bob');
      await bench.ask('bob');
      await bench.ask('ann', bench.shortMs);
      strictEqual(await bench.release('bob'), true);
      strictEqual(await bench.statusOf('cid'), 'held');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('cid'), 'granted');
    });

    test('is renewed, and never for shorter', async (bench) => {
      bench.sharing('shared', 'ann');
      await bench.ask('ann', bench.shortMs);
      strictEqual(await bench.extend('ann', LONG_MS), 'renewed');
      strictEqual(await bench.extend('ann', bench.shortMs), 'renewed');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'held');
    });

    test('stays closed for the rest of a minimum hold', async (bench) => {
      bench.sharing('shared', 'ann');
      await bench.ask('ann');
      strictEqual(await bench.release('ann', bench.shortMs), true);
      strictEqual(await bench.statusOf('bob'), 'held');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('that is asked for again is granted again, and held once', async (bench) => {
      if (!bench.under.store.capabilities.idempotentAcquire) return;
      bench.sharing('shared', 'ann');
      strictEqual(await bench.statusOf('ann'), 'granted');
      strictEqual(await bench.statusOf('ann'), 'granted');
      strictEqual(await bench.release('ann'), true);
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('has tokens that rise with every grant', async (bench) => {
      if (!bench.under.store.capabilities.fencing) return;
      bench.sharing('shared', 'ann', 'bob');
      const tokens = [await bench.tokenFor('ann'), await bench.tokenFor('bob')];
      for (const name of ['ann', 'bob']) await bench.release(name);
      tokens.push(await bench.tokenFor('cid'));
      ok(tokens[0] < tokens[1] && tokens[1] < tokens[2], tokens.join(' '));
    });

    testQueue('goes to all neighbours in the queue at once, each with a token of its own', async (bench) => {
      bench.sharing('shared', 'bob', 'cid', 'eve');
      for (const name of ['ann', 'bob', 'cid', 'dot', 'eve']) await bench.ask(name);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(2), ['bob', 'cid']);
      const tokens = bench.handoffs.map(({ token, tokens: set, mode }) => [token, set, mode]);
      deepStrictEqual(tokens, [
        [tokens[0][0], 1, 'shared'],
        [tokens[1][0], 1, 'shared'],
      ]);
      ok(Number(tokens[0][0]) < Number(tokens[1][0]));
      await bench.release('bob');
      await bench.release('cid');
      deepStrictEqual(await bench.handedTo(3), ['bob', 'cid', 'dot']);
      await bench.release('dot');
      deepStrictEqual(await bench.handedTo(4), ['bob', 'cid', 'dot', 'eve']);
    });

    testQueue('is not for those who come behind one who waits to have it alone', async (bench) => {
      bench.sharing('shared', 'ann', 'cid');
      await bench.ask('ann');
      await bench.ask('bob');
      strictEqual(await bench.statusOf('cid'), 'held');
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
      await bench.release('bob');
      deepStrictEqual(await bench.handedTo(2), ['bob', 'cid']);
    });

    testQueue('goes to those behind one who does not wait any more', async (bench) => {
      bench.sharing('shared', 'ann', 'cid', 'dot');
      for (const name of ['ann', 'bob', 'cid', 'dot']) await bench.ask(name);
      strictEqual(await bench.release('bob'), false);
      deepStrictEqual(await bench.handedTo(2), ['cid', 'dot']);
    });

    testQueue('goes to the next ones past those that nobody listens for', async (bench) => {
      bench.sharing('shared', DEAD, 'bob');
      for (const name of ['ann', DEAD, 'bob']) await bench.ask(name);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(1), ['bob']);
    });

    testQueue('goes to the neighbours of one who finds that a dead holder’s lease is over', async (bench) => {
      bench.sharing('shared', 'bob', 'cid');
      await bench.ask('ann', bench.shortMs);
      for (const name of ['bob', 'cid']) await bench.ask(name);
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('bob'), 'granted');
      deepStrictEqual(await bench.handedTo(1), ['cid']);
    });
  });

  describe('a lock with permits', () => {
    const test = inMode('permits');
    const testQueue = queued('permits');

    test('is held by so many at most', async (bench) => {
      bench.sharing(2, 'ann', 'bob', 'cid');
      strictEqual(await bench.statusOf('ann'), 'granted');
      strictEqual(await bench.statusOf('bob'), 'granted');
      strictEqual(await bench.statusOf('cid'), 'held');
      strictEqual(await bench.statusOf('dot'), 'held');
      await bench.release('ann');
      strictEqual(await bench.release('dot'), false);
      strictEqual(await bench.statusOf('cid'), 'granted');
    });

    test('has a permit to give when a lease is over, no sooner and no more', async (bench) => {
      bench.sharing(2, 'ann', 'bob', 'cid', 'dot');
      await bench.ask('ann', bench.shortMs);
      await bench.ask('bob');
      await bench.outlast(bench.shortMs);
      strictEqual(await bench.statusOf('cid'), 'granted');
      strictEqual(await bench.statusOf('dot'), 'held');
      strictEqual(await bench.extend('ann', LONG_MS), 'lost');
    });

    test('is not asked for with another number than it is held with', async (bench) => {
      bench.sharing(2, 'ann');
      bench.sharing(3, 'bob');
      await bench.ask('ann');
      deepStrictEqual(await bench.ask('bob'), { status: 'permits-mismatch', permits: 2 });
      await bench.release('ann');
      strictEqual(await bench.statusOf('bob'), 'granted');
    });

    test('with a single permit differs from one that is held alone', async (bench) => {
      bench.sharing(1, 'ann', 'bob');
      bench.sharing(2, 'cid');
      strictEqual(await bench.statusOf('ann'), 'granted');
      strictEqual(await bench.statusOf('bob'), 'held');
      deepStrictEqual(await bench.ask('cid'), { status: 'permits-mismatch', permits: 1 });
    });

    testQueue('hands a released permit to who waits, first come first served', async (bench) => {
      bench.sharing(2, 'ann', 'bob', 'cid', 'dot');
      for (const name of ['ann', 'bob', 'cid', 'dot']) await bench.ask(name);
      await bench.release('bob');
      deepStrictEqual(await bench.handedTo(1), ['cid']);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(2), ['cid', 'dot']);
    });

    testQueue('goes past one who waits for another number, and is told to ask', async (bench) => {
      bench.sharing(2, 'bob', 'dot');
      bench.sharing(3, 'cid');
      for (const name of ['ann', 'bob', 'cid', 'dot']) await bench.ask(name);
      await bench.release('ann');
      deepStrictEqual(await bench.handedTo(3), ['bob', 'cid', 'dot']);
      const told = Number(bench.handoffs[1].grantedAt) > -LONG_MS;
      deepStrictEqual([told, await bench.ask('cid')], [false, { status: 'permits-mismatch', permits: 2 }]);
    });
  });
}
