import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import type { LockMode } from '../../core/store/lock-store.js';
import type { ContractPart, StoreFixture } from './store-fixture.js';

/** Returns whether the store can end a hold by force. */
function canForce({ under }: StoreFixture): boolean {
  return under.store.forceRelease !== undefined;
}

/** Tests that all holders of a lock in that mode lose it. */
async function losesAll(fixture: StoreFixture, mode: LockMode): Promise<void> {
  if (!canForce(fixture)) return;
  fixture.setMode(mode, 'ann', 'bob');
  await fixture.acquireAll('ann', 'bob');
  strictEqual(await fixture.statusOf('writer'), 'held');
  strictEqual(await fixture.forceRelease(), true);
  strictEqual(await fixture.extend('ann', 10_000), 'lost');
  strictEqual(await fixture.extend('bob', 10_000), 'lost');
  strictEqual(await fixture.statusOf('writer'), 'granted');
  strictEqual(await fixture.release('ann'), false);
  strictEqual(await fixture.statusOf('cid'), 'held');
}

/** Tests that a hold can be ended by somebody else than its owner. Stores that cannot do that pass. */
export const forceContract: ContractPart = {
  subject: 'a release by force',
  tests: {
    'ends the hold of another owner': async (fixture) => {
      if (!canForce(fixture)) return;
      await fixture.acquire('ann');
      strictEqual(await fixture.forceRelease(), true);
      strictEqual(await fixture.under.store.inspect(fixture.key), null);
      strictEqual(await fixture.extend('ann', 10_000), 'lost');
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'leaves nothing to its former owner': async (fixture) => {
      if (!canForce(fixture)) return;
      await fixture.acquire('ann');
      await fixture.forceRelease();
      await fixture.acquire('bob');
      strictEqual(await fixture.extend('ann', 10_000), 'lost');
      strictEqual(await fixture.release('ann'), false);
      strictEqual(await fixture.extend('bob', 10_000), 'renewed');
    },

    'returns false if nobody holds the lock': async (fixture) => {
      if (!canForce(fixture)) return;
      strictEqual(await fixture.forceRelease(), false);
      await fixture.acquire('ann');
      await fixture.release('ann');
      strictEqual(await fixture.forceRelease(), false);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'has no effect on the key of another lock': async (fixture) => {
      if (!canForce(fixture)) return;
      await fixture.acquire('ann');
      await fixture.acquire('bob', undefined, undefined, { key: `${fixture.key}:other` });
      strictEqual(await fixture.forceRelease(undefined, `${fixture.key}:other`), true);
      strictEqual(await fixture.extend('ann', 10_000), 'renewed');
    },

    'ends the hold with its token only, if there is one': async (fixture) => {
      if (!canForce(fixture) || !fixture.capabilities.fencing) return;
      const token = await fixture.tokenOf('ann');
      strictEqual(await fixture.forceRelease(token + 1), false);
      strictEqual(await fixture.forceRelease(token - 1), false);
      strictEqual(await fixture.extend('ann', 10_000), 'renewed');
      strictEqual((await fixture.under.store.inspect(fixture.key))?.token, token);
      strictEqual(await fixture.forceRelease(token), true);
      const next = await fixture.tokenOf('bob');
      ok(next > token);
      strictEqual(await fixture.forceRelease(token), false);
      strictEqual(await fixture.extend('bob', 10_000), 'renewed');
    },

    'hands the lock off to the first in the queue': async (fixture) => {
      if (!canForce(fixture) || !fixture.capabilities.queue) return;
      await fixture.listen();
      const token = await fixture.tokenOf('ann');
      await fixture.acquireAll('bob', 'cid');
      strictEqual(await fixture.forceRelease(), true);
      deepStrictEqual(await fixture.handoffsTo(1), ['bob']);
      ok((fixture.handoffs[0].token ?? 0) > token);
      strictEqual(await fixture.extend('ann', 10_000), 'lost');
      strictEqual(await fixture.extend('bob', 10_000), 'renewed');
      strictEqual(await fixture.forceRelease(), true);
      deepStrictEqual(await fixture.handoffsTo(2), ['bob', 'cid']);
    },

    'is reported to the former holder': async (fixture) => {
      if (!canForce(fixture) || !fixture.capabilities.queue) return;
      await fixture.listen();
      await fixture.acquire('ann');
      await fixture.forceRelease();
      deepStrictEqual(await fixture.forcedTimes(1), [fixture.key]);
    },

    'ends the hold of a client of another library': async (fixture) => {
      const { otherClient } = fixture.under;
      if (!canForce(fixture) || otherClient === undefined) return;
      strictEqual(await otherClient.acquire(fixture.key), true);
      strictEqual(await fixture.forceRelease(), true);
      strictEqual(await otherClient.holds(fixture.key), false);
      strictEqual(await fixture.statusOf('ann'), 'granted');
    },

    'ends all shared holds': async (fixture) => {
      if (fixture.supports('shared')) await losesAll(fixture, 'shared');
    },

    'ends the holds of all permits': async (fixture) => {
      if (fixture.supports('permits')) await losesAll(fixture, 2);
    },

    'does not end shared holds if it names a token': async (fixture) => {
      if (!canForce(fixture) || !fixture.supports('shared') || !fixture.capabilities.fencing) return;
      fixture.setMode('shared', 'ann');
      const token = await fixture.tokenOf('ann');
      strictEqual(await fixture.forceRelease(token), false);
      strictEqual(await fixture.extend('ann', 10_000), 'renewed');
    },
  },
};
