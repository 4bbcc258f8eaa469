import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import type { LockMode } from '../../lib/contract/store.js';
import { fencing, permits, queue, repeats, shared } from './needs.js';
import { type ContractPart, DEAD, HANDOFF_MS, LONG_MS, onlyWith, type StoreFixture } from './store-fixture.js';

/** Tests the mode `shared`. */
export const sharedContract: ContractPart = {
  subject: 'shared lock',
  needs: [shared],
  tests: {
    'is granted to many callers at once, and excludes exclusive callers': async (fixture) => {
      fixture.setMode('shared', 'ann', 'bob', 'dot');
      for (const name of ['ann', 'bob']) strictEqual(await fixture.statusOf(name), 'granted');
      for (const name of ['ann', 'bob']) {
        strictEqual(await fixture.statusOf('cid'), 'held');
        strictEqual(await fixture.release(name), true);
      }
      strictEqual(await fixture.statusOf('cid'), 'granted');
      strictEqual(await fixture.statusOf('dot'), 'held');
    },

    'has a lease for each holder': async (fixture) => {
      fixture.setMode('shared', 'ann', 'bob');
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquire('bob');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
      strictEqual(await fixture.release('ann'), false);
      strictEqual(await fixture.extend('bob', LONG_MS), 'renewed');
      strictEqual(await fixture.statusOf('cid'), 'held');
      strictEqual(await fixture.release('bob'), true);
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },

    'lasts as long as the last lease that was not released': async (fixture) => {
      fixture.setMode('shared', 'ann', 'bob');
      await fixture.acquire('bob');
      await fixture.acquire('ann', fixture.shortMs);
      strictEqual(await fixture.release('bob'), true);
      strictEqual(await fixture.statusOf('cid'), 'held');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },

    'is renewed, and never shortened': async (fixture) => {
      fixture.setMode('shared', 'ann');
      await fixture.acquire('ann', fixture.shortMs);
      strictEqual(await fixture.extend('ann', LONG_MS), 'renewed');
      strictEqual(await fixture.extend('ann', fixture.shortMs), 'renewed');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'held');
    },

    'stays closed for closedForMs after a release': async (fixture) => {
      fixture.setMode('shared', 'ann');
      await fixture.acquire('ann');
      strictEqual(await fixture.release('ann', { closedForMs: fixture.shortMs }), true);
      strictEqual(await fixture.statusOf('bob'), 'held');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'is held once if its request is repeated': onlyWith([repeats], async (fixture) => {
      fixture.setMode('shared', 'ann');
      strictEqual(await fixture.statusOf('ann'), 'granted');
      strictEqual(await fixture.statusOf('ann'), 'granted');
      strictEqual(await fixture.release('ann'), true);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    }),

    'has tokens that rise with every grant': onlyWith([fencing], async (fixture) => {
      fixture.setMode('shared', 'ann', 'bob');
      const tokens = [await fixture.tokenOf('ann'), await fixture.tokenOf('bob')];
      for (const name of ['ann', 'bob']) await fixture.release(name);
      tokens.push(await fixture.tokenOf('cid'));
      ok(tokens[0] < tokens[1] && tokens[1] < tokens[2], tokens.join(' '));
    }),
  },
};

/** Returns the queue, as inspect shows it, if callers of this instance wait in these modes. */
function waitersOf({ instanceId }: StoreFixture, ...modes: readonly LockMode[]) {
  return modes.map((mode) => ({ waiter: instanceId, mode }));
}

/** Tests the mode `shared` of stores with a queue. */
export const sharedQueueContract: ContractPart = {
  subject: 'shared lock in the queue',
  needs: [shared, queue],
  tests: {
    'is handed to adjacent shared entries at once, each with its own token': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode('shared', 'bob', 'cid', 'eve');
      const before = await fixture.tokenOf('ann');
      await fixture.acquireAll('bob', 'cid', 'dot', 'eve');
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(2), ['bob', 'cid']);
      const state = await fixture.inspect();
      ok(state?.holder !== undefined && state.others?.length === 1);
      strictEqual(state.mode, 'shared');
      for (const { remainingMs } of [state, ...state.others]) fixture.assertRemaining(remainingMs, HANDOFF_MS);
      deepStrictEqual(state.waiting, waitersOf(fixture, 'exclusive', 'shared'));
      const tokens = [await fixture.tokenOf('bob'), await fixture.tokenOf('cid')];
      ok(before < tokens[0] && before < tokens[1] && tokens[0] !== tokens[1], tokens.join(' '));
      const renewed = await fixture.inspect();
      fixture.assertRemaining(renewed?.remainingMs, LONG_MS);
      await fixture.release('bob');
      await fixture.release('cid');
      deepStrictEqual(await fixture.woken(3), ['bob', 'cid', 'dot']);
      await fixture.release('dot');
      deepStrictEqual(await fixture.woken(4), ['bob', 'cid', 'dot', 'eve']);
    },

    'is not granted to callers behind an exclusive waiter': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode('shared', 'ann', 'cid');
      await fixture.acquire('ann');
      await fixture.acquire('bob');
      strictEqual(await fixture.statusOf('cid'), 'held');
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['bob']);
      await fixture.release('bob');
      deepStrictEqual(await fixture.woken(2), ['bob', 'cid']);
    },

    'is granted to the entries behind a waiter that leaves the queue': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode('shared', 'ann', 'cid', 'dot');
      await fixture.acquireAll('ann', 'bob', 'cid', 'dot');
      strictEqual(await fixture.release('bob'), false);
      deepStrictEqual(await fixture.woken(2), ['cid', 'dot']);
    },

    'skips entries of instances without a subscriber': async (fixture) => {
      fixture.setMode('shared', DEAD, 'bob');
      await fixture.line(['ann']);
      await fixture.queueDead();
      await fixture.queue('bob');
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(1), ['bob']);
    },

    'is handed to the next shared entries if the first finds an expired lease': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode('shared', 'bob', 'cid');
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquireAll('bob', 'cid');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      deepStrictEqual(await fixture.woken(1), ['cid']);
    },
  },
};

/** Tests permits. */
export const permitsContract: ContractPart = {
  subject: 'permits',
  needs: [permits],
  tests: {
    'are granted to as many callers as there are permits': async (fixture) => {
      fixture.setMode(2, 'ann', 'bob', 'cid');
      strictEqual(await fixture.statusOf('ann'), 'granted');
      strictEqual(await fixture.statusOf('bob'), 'granted');
      strictEqual(await fixture.statusOf('cid'), 'held');
      strictEqual(await fixture.statusOf('dot'), 'held');
      await fixture.release('ann');
      strictEqual(await fixture.release('dot'), false);
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },

    'are granted again once a lease has expired, one for each lease': async (fixture) => {
      fixture.setMode(2, 'ann', 'bob', 'cid', 'dot');
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquire('bob');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('cid'), 'granted');
      strictEqual(await fixture.statusOf('dot'), 'held');
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
    },

    'are refused to a caller that passes another number': async (fixture) => {
      fixture.setMode(2, 'ann');
      fixture.setMode(3, 'bob');
      await fixture.acquire('ann');
      deepStrictEqual(await fixture.acquire('bob'), { status: 'permits-mismatch', permits: 2 });
      await fixture.release('ann');
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'of 1 differ from an exclusive lock': async (fixture) => {
      fixture.setMode(1, 'ann', 'bob');
      fixture.setMode(2, 'cid');
      strictEqual(await fixture.statusOf('ann'), 'granted');
      strictEqual(await fixture.statusOf('bob'), 'held');
      deepStrictEqual(await fixture.acquire('cid'), { status: 'permits-mismatch', permits: 1 });
    },
  },
};

/** Tests permits of stores with a queue. */
export const permitsQueueContract: ContractPart = {
  subject: 'permits in the queue',
  needs: [permits, queue],
  tests: {
    'are handed off in arrival order': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode(2, 'ann', 'bob', 'cid', 'dot');
      await fixture.acquireAll('ann', 'bob', 'cid', 'dot');
      await fixture.release('bob');
      deepStrictEqual(await fixture.woken(1), ['cid']);
      await fixture.release('ann');
      deepStrictEqual(await fixture.woken(2), ['cid', 'dot']);
    },

    'are handed past an entry with another number, which must request again': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode(2, 'bob', 'dot');
      fixture.setMode(3, 'cid');
      await fixture.acquireAll('ann', 'bob', 'cid', 'dot');
      await fixture.release('ann');
      // What is written first need not be published first: replicas acknowledge grants only.
      deepStrictEqual((await fixture.woken(3)).toSorted(), ['bob', 'cid', 'dot']);
      deepStrictEqual(await fixture.acquire('cid'), { status: 'permits-mismatch', permits: 2 });
      for (const name of ['bob', 'dot']) strictEqual(await fixture.extend(name), 'renewed');
    },

    'close one at a time, which wakes the first waiter': async (fixture) => {
      await fixture.subscribe();
      fixture.setMode(2, 'ann', 'bob', 'cid');
      await fixture.acquireAll('ann', 'bob');
      await fixture.queue('cid');
      await fixture.release('ann', { closedForMs: fixture.shortMs });
      deepStrictEqual(await fixture.woken(1), ['cid']);
      const reply = await fixture.acquire('cid');
      ok(reply.status === 'held');
      fixture.assertRemaining(reply.remainingMs, fixture.shortMs);
      strictEqual(await fixture.extend('bob'), 'renewed');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('cid'), 'granted');
    },
  },
};
