import { deepStrictEqual, strictEqual } from 'node:assert/strict';
import type { ContractPart, StoreFixture } from './store-fixture.js';

/** Acquires the lock for an instance that may keep it. Returns false if the store keeps no locks. */
async function keep(fixture: StoreFixture): Promise<boolean> {
  const { store } = fixture.under;
  if (store.canKeep === undefined) return false;
  await fixture.listen();
  // `listen()` has waited until messages are received.
  strictEqual(store.canKeep(fixture.key), true);
  fixture.setKept('keeper');
  strictEqual(await fixture.statusOf('keeper'), 'granted');
  return true;
}

/** Tests that an instance is notified if others want a lock that it may keep. Stores that keep no locks pass. */
export const keepingContract: ContractPart = {
  subject: 'a lock that may be kept',
  tests: {
    'is reported to be wanted if another owner joins its queue': async (fixture) => {
      if (!(await keep(fixture))) return;
      strictEqual(await fixture.statusOf('other'), 'held');
      deepStrictEqual(await fixture.wantedTimes(1), [fixture.key]);
      await fixture.release('keeper');
      deepStrictEqual(await fixture.handoffsTo(1), ['other']);
    },

    'is reported to be wanted if another owner is refused': async (fixture) => {
      if (!(await keep(fixture))) return;
      const { key } = fixture;
      await fixture.acquire('other', undefined, undefined, { key, queue: false });
      deepStrictEqual(await fixture.wantedTimes(1), [key]);
    },

    'is renewed and released like any other lock': async (fixture) => {
      if (!(await keep(fixture))) return;
      strictEqual(await fixture.extend('keeper', 60_000), 'renewed');
      strictEqual(await fixture.release('keeper'), true);
      strictEqual(await fixture.statusOf('other'), 'granted');
    },
  },
};
