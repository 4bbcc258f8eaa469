import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import type { ListedLock } from '../../lib/contract/store.js';
import { list, queue, shared } from './needs.js';
import { type ContractPart, LONG_MS, type StoreFixture } from './store-fixture.js';

/** The key of one lock of the test. */
const keyOf = (fixture: StoreFixture, name: string): string => `${fixture.key}:listed:${name}`;

/** Lists the test's locks. */
function listing(fixture: StoreFixture, count = 1_000, without?: string): AsyncIterable<ListedLock> {
  const prefix = keyOf(fixture, '');
  const selects = (key: string): boolean => key.startsWith(prefix) && key !== without;
  const locks = fixture.under.store.list?.({ pattern: `${prefix}*`, selects, count });
  if (locks === undefined) throw new Error('the store has no list');
  return locks;
}

async function acquire(fixture: StoreFixture, name: string, caller: string, leaseMs?: number): Promise<void> {
  await fixture.acquire(caller, leaseMs, { key: keyOf(fixture, name) });
}

/** Returns all listed locks, in the order of their keys. */
async function allOf(locks: AsyncIterable<ListedLock>): Promise<readonly ListedLock[]> {
  const found: ListedLock[] = [];
  for await (const lock of locks) found.push(lock);
  return found.toSorted((one, other) => (one.key < other.key ? -1 : 1));
}

/** Tests the list of all locks. */
export const listingContract: ContractPart = {
  subject: 'list',
  needs: [list],
  tests: {
    'yields held locks as inspect returns them, and no others': async (fixture) => {
      const locks = listing(fixture, 1_000, keyOf(fixture, 'd'));
      for (const name of ['a', 'b', 'c', 'd']) await acquire(fixture, name, `caller-${name}`);
      await fixture.release('caller-b', { key: keyOf(fixture, 'b') });
      const found = await allOf(locks);
      deepStrictEqual(
        found.map(({ key }) => key),
        ['a', 'c'].map((name) => keyOf(fixture, name)),
      );
      for (const { key, state } of found) {
        fixture.assertRemaining(state.remainingMs, LONG_MS);
        const inspected = await fixture.under.store.inspect(key);
        const times = { remainingMs: 0, since: 0 };
        deepStrictEqual({ ...state, ...times }, { ...inspected, ...times });
      }
    },

    'yields nothing if nothing is held': async (fixture) => {
      deepStrictEqual(await allOf(listing(fixture)), []);
    },

    'yields each of many locks once, in small steps': async (fixture) => {
      const locks = listing(fixture, 7);
      const names = Array.from({ length: 150 }, (_, i) => `many${i}`);
      await Promise.all(names.map((name) => acquire(fixture, name, name)));
      const keys = (await allOf(locks)).map(({ key }) => key);
      deepStrictEqual(keys, names.map((name) => keyOf(fixture, name)).toSorted());
    },

    'ends when its caller leaves the loop': async (fixture) => {
      const locks = listing(fixture, 1);
      for (const name of ['a', 'b', 'c']) await acquire(fixture, name, `caller-${name}`);
      let seen = 0;
      for await (const { state } of locks) {
        ok(state.holder !== undefined);
        seen += 1;
        break;
      }
      strictEqual(seen, 1);
      strictEqual((await allOf(listing(fixture))).length, 3);
    },
  },
};

/** Tests the list of locks that are waited for. */
export const queueListingContract: ContractPart = {
  subject: 'list of a store with a queue',
  needs: [list, queue],
  tests: {
    'yields a lock with waiters once, and a lock that has only waiters': async (fixture) => {
      const locks = listing(fixture);
      await fixture.subscribe();
      await acquire(fixture, 'held', 'ann');
      await acquire(fixture, 'awaited', 'cid', fixture.shortMs);
      await acquire(fixture, 'held', 'bob');
      await acquire(fixture, 'awaited', 'dot');
      await fixture.outlast(fixture.shortMs);
      const waiting = [{ waiter: fixture.instanceId, mode: 'exclusive' }];
      const found = await allOf(locks);
      deepStrictEqual(
        found.map(({ key, state }) => [key, state.holder, state.waiting]),
        [
          [keyOf(fixture, 'awaited'), undefined, waiting],
          [keyOf(fixture, 'held'), fixture.instanceId, waiting],
        ],
      );
    },
  },
};

/** Tests the list of shared locks. */
export const sharedListingContract: ContractPart = {
  subject: 'list of a store with shared locks',
  needs: [list, shared],
  tests: {
    'yields a shared lock once, with all of its holders': async (fixture) => {
      const locks = listing(fixture);
      fixture.setMode('shared', 'ann', 'bob');
      for (const name of ['ann', 'bob']) await acquire(fixture, 'shared', name);
      const found = await allOf(locks);
      strictEqual(found.length, 1);
      const [{ state }] = found;
      strictEqual(state.mode, 'shared');
      strictEqual(state.others?.length, 1);
    },
  },
};
