import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { datingHandoffs, queue } from './needs.js';
import { type ContractPart, DEAD, HANDOFF_MS, LONG_MS, onlyWith, TIMEOUT_MS } from './store-fixture.js';

/** Tests that waiters get a lock in arrival order. */
export const queueContract: ContractPart = {
  subject: 'queue',
  needs: [queue],
  tests: {
    'hands a released lock off in arrival order': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      for (const name of ['bob', 'cid', 'dot']) {
        const reply = await fixture.acquire(name);
        ok(reply.status === 'held' && reply.queued, JSON.stringify(reply));
      }
      await fixture.release('ann');
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
      await fixture.release('bob');
      await fixture.handoffsTo(2);
      await fixture.release('cid');
      deepStrictEqual(await fixture.handoffsTo(3), ['bob', 'cid', 'dot']);
      await fixture.release('dot');
      strictEqual(await fixture.under.store.inspect(fixture.key), null);
    },

    'a handoff grants the lock with its own lease and tokens': async (fixture) => {
      await fixture.listen();
      const before = await fixture.tokenOf('ann');
      await fixture.acquire('bob');
      await fixture.release('ann');
      await fixture.handoffsTo(1);
      const [handoff] = fixture.handoffs;
      ok(handoff.token !== undefined && handoff.token > before);
      strictEqual(handoff.leaseMs, HANDOFF_MS);
      const info = await fixture.under.store.inspect(fixture.key);
      strictEqual(info?.token, handoff.token);
      fixture.assertRemaining(info.remainingMs, HANDOFF_MS);
      strictEqual(await fixture.extend('bob', LONG_MS), 'renewed');
    },

    'a handoff says when the lock was granted': onlyWith([datingHandoffs], async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquire('bob');
      const sentAt = fixture.under.clock.now();
      await fixture.release('ann');
      await fixture.handoffsTo(1);
      const [{ grantedAt }] = fixture.handoffs;
      // The two clocks may differ by a fraction of a millisecond.
      ok(grantedAt !== undefined && grantedAt <= fixture.under.clock.now() + 1);
      ok(grantedAt > sentAt - 1_000, 'the handoff is recent');
    }),

    'tokens reserved with a grant are never granted to another owner': async (fixture) => {
      await fixture.listen();
      const first = await fixture.acquire('ann');
      ok(first.status === 'granted' && first.token !== undefined);
      strictEqual(first.tokens, 4);
      await fixture.acquire('bob');
      await fixture.release('ann');
      await fixture.handoffsTo(1);
      const { token: second = 0, tokens } = fixture.handoffs[0];
      ok(second >= first.token + 4, `${second - first.token}`);
      await fixture.release('bob');
      ok((await fixture.tokenOf('cid')) >= second + tokens);
    },

    'a repeated acquire request keeps the place': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquireAll('bob', 'cid', 'bob');
      await fixture.release('ann');
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
    },

    'counts the owners that wait before a queued one, if it counts any': async (fixture) => {
      await fixture.listen();
      const aheadOf = async (name: string): Promise<number | undefined> => {
        const reply = await fixture.acquire(name);
        ok(reply.status === 'held' && reply.queued, JSON.stringify(reply));
        return reply.ahead;
      };
      await fixture.acquire('ann');
      const counts = [await aheadOf('bob'), await aheadOf('cid'), await aheadOf('bob'), await aheadOf('dot')];
      ok(counts.every((count) => count === undefined) || counts.join() === '0,1,0,2', counts.join());
      await fixture.release('ann');
      await fixture.handoffsTo(1);
      const after = await aheadOf('cid');
      ok(after === undefined || after === 0, String(after));
    },

    'a release removes its own owner only': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquireAll('bob', 'cid');
      strictEqual(await fixture.release('bob'), false);
      await fixture.release('ann');
      deepStrictEqual(await fixture.handoffsTo(1), ['cid']);
    },

    'an acquire request with queue: false does not join the queue': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      const reply = await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { queue: false });
      ok(reply.status === 'held' && !reply.queued);
      await fixture.release('ann');
      strictEqual(await fixture.under.store.inspect(fixture.key), null);
      deepStrictEqual(await fixture.handoffsTo(0), []);
    },

    'a release skips entries of instances without a subscriber': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquireAll(DEAD, 'bob');
      await fixture.release('ann');
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
    },

    'a release frees the lock if no entry has a subscriber': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquire(DEAD);
      strictEqual(await fixture.release('ann'), true);
      strictEqual(await fixture.under.store.inspect(fixture.key), null);
    },

    'after an expired lease, the first entry precedes new requests': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquire('bob');
      await fixture.outlast(fixture.shortMs);
      const reply = await fixture.acquire('cid', LONG_MS, TIMEOUT_MS, { queue: false });
      strictEqual(reply.status, 'held');
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
    },

    'after an expired lease, the first entry is granted by its own request': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquireAll('bob', 'cid');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      await fixture.release('bob');
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },

    'inspect returns the queue of a lock whose holder has died': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquireAll('bob', DEAD);
      await fixture.outlast(fixture.shortMs);
      const state = await fixture.under.store.inspect(fixture.key);
      strictEqual(state?.holder, undefined);
      const waiters = [fixture.instanceId, `${fixture.instanceId}-${DEAD}`];
      deepStrictEqual(
        state?.waiting,
        waiters.map((waiter) => ({ waiter, mode: 'exclusive' })),
      );
      await fixture.release('bob');
      strictEqual(await fixture.under.store.inspect(fixture.key), null);
    },

    'a repeated request after a handoff is granted a full lease': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquireAll('bob', 'cid');
      await fixture.release('ann');
      await fixture.handoffsTo(1);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      const info = await fixture.under.store.inspect(fixture.key);
      fixture.assertRemaining(info?.remainingMs, LONG_MS);
      await fixture.release('bob');
      deepStrictEqual(await fixture.handoffsTo(2), ['bob', 'cid']);
    },

    'a release with closedForMs hands the lock off only once it is released again': async (fixture) => {
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.acquire('bob');
      strictEqual(await fixture.release('ann', fixture.shortMs), true);
      strictEqual(await fixture.statusOf('cid'), 'held');
      deepStrictEqual(await fixture.handoffsTo(0), []);
      await fixture.release('ann');
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
    },
  },
};
