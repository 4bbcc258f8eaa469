import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { fencing, queue } from './needs.js';
import { type ContractPart, HANDOFF_MS, LONG_MS, onlyWith, RESERVED } from './store-fixture.js';

/** Tests that waiters get a lock in arrival order. */
export const queueContract: ContractPart = {
  subject: 'queue',
  needs: [queue],
  tests: {
    'hands a released lock off in arrival order': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid', 'dot']);
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['bob']);
      await fixture.release('bob');
      await fixture.woken(2);
      await fixture.release('cid');
      deepStrictEqual(await fixture.woken(3), ['bob', 'cid', 'dot']);
      await fixture.release('dot');
      strictEqual(await fixture.inspect(), null);
    },

    'a handoff grants the lock with its own lease, before its owner asks again': async (fixture) => {
      await fixture.line(['ann', 'bob']);
      const before = (await fixture.inspect())?.token ?? 0;
      strictEqual(await fixture.release('ann'), true);
      deepStrictEqual(await fixture.woken(1), ['bob']);
      const info = await fixture.inspect();
      ok(info?.token !== undefined && info.token > before);
      fixture.assertRemaining(info.remainingMs, HANDOFF_MS);
      deepStrictEqual(info.waiting ?? [], []);
      strictEqual(await fixture.statusOf('cid'), 'held');
      strictEqual(await fixture.extend('bob', LONG_MS), 'renewed');
    },

    'the woken owner’s request gets the full lease, with the token of the handoff': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid']);
      await fixture.release('ann');
      await fixture.woken(1);
      const handedOff = await fixture.inspect();
      strictEqual((await fixture.grantOf('bob')).token, handedOff?.token);
      const info = await fixture.inspect();
      fixture.assertRemaining(info?.remainingMs, LONG_MS);
      strictEqual(info?.token, handedOff?.token);
      await fixture.release('bob');
      deepStrictEqual(await fixture.woken(2), ['bob', 'cid']);
    },

    'a handed-off lock whose owner never asks goes to the next owner that asks': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid']);
      await fixture.release('ann', { handoffMs: fixture.shortMs });
      await fixture.woken(1);
      strictEqual(await fixture.statusOf('cid'), 'held');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('cid'), 'granted');
      strictEqual(await fixture.statusOf('bob'), 'held');
      await fixture.release('cid');
      // It has lost its first place, and has the next one.
      deepStrictEqual(await fixture.woken(2), ['bob', 'bob']);
    },

    'every handoff reserves tokens that are never granted to another owner': onlyWith([fencing], async (fixture) => {
      await fixture.line(['ann']);
      let next = 0;
      for (const [name, following] of [
        ['ann', 'bob'],
        ['bob', 'cid'],
        ['cid', 'dot'],
      ]) {
        const { token, tokens } = await fixture.grantOf(name);
        ok(token !== undefined && token >= next, `${name} got ${token}, want at least ${next}`);
        strictEqual(tokens, RESERVED);
        next = token + tokens;
        await fixture.queue(following);
        await fixture.release(name);
        await fixture.untilWoken(following);
      }
      ok((await fixture.tokenOf('dot')) >= next);
    }),

    'a repeated acquire request keeps the place, even with another lease': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid', 'bob']);
      await fixture.acquire('bob', fixture.shortMs);
      strictEqual((await fixture.inspect())?.waiting?.length, 2);
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['bob']);
    },

    'counts the owners that wait before a queued one, if it counts any': async (fixture) => {
      await fixture.line(['ann']);
      const counts: (number | undefined)[] = [];
      for (const name of ['bob', 'cid', 'bob', 'dot']) counts.push(await fixture.queue(name));
      ok(counts.every((count) => count === undefined) || counts.join() === '0,1,0,2', counts.join());
      await fixture.release('ann');
      await fixture.woken(1);
      const after = await fixture.queue('cid');
      ok(after === undefined || after === 0, String(after));
    },

    'a release of an owner that waits removes this owner only': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid']);
      strictEqual(await fixture.release('bob'), false);
      strictEqual((await fixture.inspect())?.waiting?.length, 1);
      strictEqual(await fixture.extend('ann'), 'renewed');
      deepStrictEqual(await fixture.woken(0), []);
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['cid']);
    },

    'an acquire request with wait: false does not join the queue': async (fixture) => {
      await fixture.line(['ann']);
      const reply = await fixture.acquire('bob', LONG_MS, { wait: false });
      ok(reply.status === 'held' && !reply.queued);
      deepStrictEqual((await fixture.inspect())?.waiting ?? [], []);
      await fixture.release('ann');
      strictEqual(await fixture.inspect(), null);
      deepStrictEqual(await fixture.woken(0), []);
    },

    'a release skips entries of instances without a subscriber': async (fixture) => {
      await fixture.line(['ann']);
      await fixture.queueDead();
      await fixture.queue('bob');
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['bob']);
      await fixture.queueDead();
      strictEqual(await fixture.release('bob'), true);
      strictEqual(await fixture.inspect(), null);
    },

    'a request that finds the lock free hands it to the first entry': async (fixture) => {
      await fixture.line(['ann', 'bob'], fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      const reply = await fixture.acquire('cid', LONG_MS, { wait: false });
      strictEqual(reply.status, 'held');
      deepStrictEqual(await fixture.woken(1), ['bob']);
      const state = await fixture.inspect();
      fixture.assertRemaining(state?.remainingMs, HANDOFF_MS);
      deepStrictEqual(state?.waiting ?? [], []);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'a request that finds the lock free joins the queue behind the others': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid'], fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      await fixture.queue('dot');
      for (const name of ['bob', 'cid', 'dot']) {
        await fixture.untilWoken(name);
        await fixture.release(name);
      }
      deepStrictEqual(await fixture.woken(3), ['bob', 'cid', 'dot']);
    },

    'after an expired lease, the first entry is granted by its own request': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid'], fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      fixture.assertRemaining((await fixture.inspect())?.remainingMs, LONG_MS);
      await fixture.release('bob');
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },

    'inspect returns the queue of a lock whose holder has died': async (fixture) => {
      await fixture.line(['ann', 'bob'], fixture.shortMs);
      await fixture.queueDead();
      await fixture.outlast(fixture.shortMs);
      const state = await fixture.inspect();
      strictEqual(state?.holder, undefined);
      const waiters = [fixture.instanceId, fixture.deadInstanceId];
      deepStrictEqual(
        state?.waiting,
        waiters.map((waiter) => ({ waiter, mode: 'exclusive' })),
      );
      await fixture.release('bob');
      strictEqual(await fixture.inspect(), null);
    },

    'the first in the queue gets a closed key once it is open': async (fixture) => {
      await fixture.line(['ann', 'bob']);
      strictEqual(await fixture.release('ann', { closedForMs: fixture.shortMs }), true);
      await fixture.queue('cid');
      await fixture.outlast(fixture.shortMs);
      await fixture.queue('cid');
      await fixture.untilWoken('bob');
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'closing a key wakes the first waiter, which learns the rest of the time': async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid']);
      strictEqual(await fixture.release('ann', { closedForMs: fixture.shortMs }), true);
      deepStrictEqual(await fixture.woken(1), ['bob']);
      const reply = await fixture.acquire('bob');
      ok(reply.status === 'held' && reply.queued);
      fixture.assertRemaining(reply.remainingMs, fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      strictEqual(await fixture.release('bob'), true);
      deepStrictEqual(await fixture.woken(2), ['bob', 'cid']);
    },
  },
};
