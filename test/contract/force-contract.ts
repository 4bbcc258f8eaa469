import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import type { LockMode } from '../../lib/contract/store.js';
import { fencing, force, otherClient, permits, queue, shared } from './needs.js';
import { type ContractPart, HANDOFF_MS, LONG_MS, onlyWith, type StoreFixture } from './store-fixture.js';

/** Tests that all holders of a lock in that mode lose it. */
async function losesAll(fixture: StoreFixture, mode: LockMode): Promise<void> {
  fixture.setMode(mode, 'ann', 'bob');
  await fixture.acquireAll('ann', 'bob');
  strictEqual(await fixture.statusOf('writer'), 'held');
  strictEqual(await fixture.forceRelease(), true);
  strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
  strictEqual(await fixture.extend('bob', LONG_MS), 'lost');
  strictEqual(await fixture.statusOf('writer'), 'granted');
  strictEqual(await fixture.release('ann'), false);
  strictEqual(await fixture.statusOf('cid'), 'held');
}

/** Tests that a hold can be ended by a caller other than its owner. */
export const forceContract: ContractPart = {
  subject: 'a release by force',
  needs: [force],
  tests: {
    'ends the hold of another owner, to whom it leaves nothing': async (fixture) => {
      await fixture.acquire('ann');
      strictEqual(await fixture.forceRelease(), true);
      strictEqual(await fixture.inspect(), null);
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
      strictEqual(await fixture.statusOf('bob'), 'granted');
      deepStrictEqual([await fixture.extend('ann', LONG_MS), await fixture.release('ann')], ['lost', false]);
      strictEqual(await fixture.extend('bob', LONG_MS), 'renewed');
    },

    'returns false if nobody holds the lock': async (fixture) => {
      strictEqual(await fixture.forceRelease(), false);
      await fixture.acquire('ann');
      await fixture.release('ann');
      strictEqual(await fixture.forceRelease(), false);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'has no effect on the key of another lock': async (fixture) => {
      await fixture.acquire('ann');
      await fixture.acquire('bob', LONG_MS, { key: `${fixture.key}:other` });
      strictEqual(await fixture.forceRelease(undefined, `${fixture.key}:other`), true);
      strictEqual(await fixture.extend('ann', LONG_MS), 'renewed');
    },

    'ends the hold with its token only, if there is one': onlyWith([fencing], async (fixture) => {
      const token = await fixture.tokenOf('ann');
      strictEqual(await fixture.forceRelease(token + 1), false);
      strictEqual(await fixture.forceRelease(token - 1), false);
      strictEqual(await fixture.extend('ann', LONG_MS), 'renewed');
      strictEqual((await fixture.inspect())?.token, token);
      strictEqual(await fixture.forceRelease(token), true);
      const next = await fixture.tokenOf('bob');
      ok(next > token);
      strictEqual(await fixture.forceRelease(token), false);
      strictEqual(await fixture.extend('bob', LONG_MS), 'renewed');
    }),

    'hands the lock off to the first in the queue': onlyWith([queue], async (fixture) => {
      await fixture.line(['ann', 'bob', 'cid']);
      const first = (await fixture.inspect())?.token ?? 0;
      strictEqual(await fixture.forceRelease(), true);
      await fixture.untilWoken('bob');
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
      const state = await fixture.inspect();
      fixture.assertRemaining(state?.remainingMs, HANDOFF_MS);
      const { token: second } = await fixture.grantOf('bob');
      ok(second !== undefined && second > first);
      strictEqual(state?.token, second);
      strictEqual(await fixture.forceRelease(), true);
      await fixture.untilWoken('cid');
      strictEqual(await fixture.extend('bob', LONG_MS), 'lost');
      strictEqual(await fixture.statusOf('cid'), 'granted');
    }),

    'wakes the former holder': onlyWith([queue], async (fixture) => {
      await fixture.line(['ann']);
      await fixture.forceRelease();
      deepStrictEqual(await fixture.woken(1), ['ann']);
    }),

    'wakes all former holders of a shared lock': onlyWith([shared, queue], async (fixture) => {
      await fixture.subscribe();
      fixture.setMode('shared', 'ann', 'bob');
      await fixture.acquireAll('ann', 'bob');
      await fixture.queue('cid');
      await fixture.forceRelease();
      deepStrictEqual((await fixture.woken(3)).toSorted(), ['ann', 'bob', 'cid']);
    }),

    'opens a closed key': async (fixture) => {
      await fixture.acquire('ann');
      await fixture.release('ann', { closedForMs: LONG_MS });
      strictEqual(await fixture.statusOf('bob'), 'held');
      strictEqual(await fixture.forceRelease(), true);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'ends the hold of a client of another library': onlyWith([otherClient], async (fixture) => {
      const { otherClient: other } = fixture;
      strictEqual(await other.acquire(fixture.key), true);
      strictEqual(await fixture.forceRelease(), true);
      strictEqual(await other.holds(fixture.key), false);
      strictEqual(await fixture.statusOf('ann'), 'granted');
    }),

    'ends all shared holds': onlyWith([shared], (fixture) => losesAll(fixture, 'shared')),

    'ends the holds of all permits': onlyWith([permits], (fixture) => losesAll(fixture, 2)),

    'does not end shared holds if it names a token': onlyWith([shared, fencing], async (fixture) => {
      fixture.setMode('shared', 'ann');
      const token = await fixture.tokenOf('ann');
      strictEqual(await fixture.forceRelease(token), false);
      strictEqual(await fixture.extend('ann', LONG_MS), 'renewed');
    }),
  },
};
