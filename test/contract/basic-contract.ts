import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { naming, once, otherClient, queue, repeats } from './needs.js';
import { type ContractPart, LONG_MS, onlyWith } from './store-fixture.js';

/** How long a client of another library may take to get a lock whose lease has ended, in milliseconds. */
const GIVE_UP_MS = 5_000;

const exclusion: ContractPart = {
  subject: 'exclusion',
  tests: {
    'a free key is granted to one caller, and a refusal has the remaining lease': async (fixture) => {
      strictEqual(await fixture.statusOf('ann'), 'granted');
      const reply = await fixture.acquire('bob');
      ok(reply.status === 'held' && reply.remainingMs !== undefined);
      fixture.assertRemaining(reply.remainingMs, LONG_MS);
    },

    'one of 20 concurrent requests is granted': async (fixture) => {
      const names = Array.from({ length: 20 }, (_, i) => `caller${i}`);
      const statuses = await Promise.all(names.map((name) => fixture.statusOf(name)));
      strictEqual(statuses.filter((status) => status === 'granted').length, 1);
    },
  },
};

const names: ContractPart = {
  subject: 'the names of a holder',
  tests: {
    'are in refusals and inspections, whatever characters they have': onlyWith([naming], async (fixture) => {
      const work = { method: 'Reports.nightly', label: 'invoice 12, 50 % ünïcode 🔒|{}*' };
      await fixture.acquire('ann', LONG_MS, work);
      const reply = await fixture.acquire('bob');
      ok(reply.status === 'held');
      deepStrictEqual([reply.holder?.method, reply.holder?.label], [work.method, work.label]);
      const state = await fixture.inspect();
      deepStrictEqual([state?.method, state?.label], [work.method, work.label]);
      strictEqual(await fixture.extend('ann'), 'renewed');
      strictEqual(await fixture.release('bob'), false);
      strictEqual(await fixture.release('ann'), true);
      strictEqual(await fixture.inspect(), null);
    }),

    'are those of the last request, which gets the same token': onlyWith([naming], async (fixture) => {
      const first = await fixture.acquire('ann', LONG_MS, { method: 'Reports.nightly' });
      deepStrictEqual(await fixture.acquire('ann', LONG_MS, { label: 'second' }), first);
      const state = await fixture.inspect();
      deepStrictEqual([state?.method, state?.label], [undefined, 'second']);
    }),

    'come with the next request of an owner that was handed the lock': onlyWith([naming, queue], async (fixture) => {
      await fixture.subscribe();
      await fixture.acquire('ann', LONG_MS, { label: 'first' });
      await fixture.acquire('bob', LONG_MS, { label: 'second' });
      await fixture.release('ann');
      strictEqual((await fixture.inspect())?.label, undefined);
      await fixture.acquire('bob', LONG_MS, { label: 'second' });
      strictEqual((await fixture.inspect())?.label, 'second');
    }),
  },
};

const release: ContractPart = {
  subject: 'release',
  tests: {
    'returns false if the caller does not hold the key': async (fixture) => {
      strictEqual(await fixture.release('zoe'), false);
      await fixture.acquire('ann');
      strictEqual(await fixture.release('bob'), false);
      strictEqual(await fixture.statusOf('cid'), 'held');
      strictEqual(await fixture.extend('ann'), 'renewed');
    },

    'frees the key, and has no effect if it is repeated': async (fixture) => {
      await fixture.acquire('ann');
      strictEqual(await fixture.release('ann'), true);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      strictEqual(await fixture.release('ann'), false);
      strictEqual(await fixture.statusOf('cid'), 'held');
    },

    'keeps the key closed for closedForMs, as nobody’s': async (fixture) => {
      await fixture.acquire('ann');
      strictEqual(await fixture.release('ann', { closedForMs: fixture.shortMs }), true);
      const reply = await fixture.acquire('bob');
      ok(reply.status === 'held');
      fixture.assertRemaining(reply.remainingMs, fixture.shortMs);
      deepStrictEqual([await fixture.extend('ann', 1), await fixture.release('ann')], ['lost', false]);
      strictEqual(await fixture.statusOf('cid'), 'held');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
    },

    'tells a key that is closed because its work is done from others': onlyWith([once], async (fixture) => {
      const isDone = async (name: string): Promise<boolean> => {
        const reply = await fixture.acquire(name);
        ok(reply.status === 'held');
        return reply.isDone === true;
      };
      await fixture.acquire('ann');
      strictEqual(await isDone('bob'), false);
      await fixture.release('ann', { closedForMs: fixture.shortMs });
      strictEqual(await isDone('cid'), false);
      await fixture.outlast(fixture.shortMs);
      await fixture.acquire('dan');
      strictEqual(await fixture.release('dan', { closedForMs: fixture.shortMs, isDone: true }), true);
      strictEqual(await isDone('eve'), true);
      strictEqual(await fixture.release('dan', { closedForMs: LONG_MS }), false);
      strictEqual(await isDone('fay'), true);
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('gus'), 'granted');
      strictEqual(await fixture.release('gus', { isDone: true }), true);
      strictEqual(await fixture.statusOf('hal'), 'granted');
    }),
  },
};

const expiry: ContractPart = {
  subject: 'expiry',
  tests: {
    'an expired lease frees the key, and its owner cannot touch the next lock': async (fixture) => {
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'granted');
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
      strictEqual(await fixture.release('ann'), false);
      strictEqual(await fixture.statusOf('cid'), 'held');
      strictEqual(await fixture.release('bob'), true);
    },

    'the lock of another library’s client is neither freed nor extended': onlyWith([otherClient], async (fixture) => {
      const { otherClient: other, under } = fixture;
      await fixture.acquire('ann', fixture.shortMs);
      await other.lose(fixture.key);
      const giveUpAt = under.clock.now() + fixture.shortMs * 5 + GIVE_UP_MS;
      while (!(await other.acquire(fixture.key))) {
        ok(under.clock.now() < giveUpAt, 'the other client gets the lock after the lease');
        await under.pass(5);
      }
      strictEqual(await fixture.extend('ann', LONG_MS), 'lost');
      strictEqual(await fixture.release('ann'), false);
      strictEqual(await other.holds(fixture.key), true);
    }),
  },
};

const extend: ContractPart = {
  subject: 'extend',
  tests: {
    'sets a new lease, and never shortens it': async (fixture) => {
      await fixture.acquire('ann', fixture.shortMs);
      for (const leaseMs of [LONG_MS, fixture.shortMs]) strictEqual(await fixture.extend('ann', leaseMs), 'renewed');
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'held');
    },

    'returns one reply for each request of a batch, in order': async (fixture) => {
      strictEqual(await fixture.extend('ann'), 'lost');
      await fixture.acquire('ann');
      const of = (name: string) => ({ ...fixture.ownership(name), leaseMs: LONG_MS });
      const replies = await fixture.under.store.extend([of('bob'), of('ann'), of('cid')]);
      deepStrictEqual(replies, ['lost', 'renewed', 'lost']);
      deepStrictEqual(await fixture.under.store.extend([]), []);
    },
  },
};

const acquireRequest: ContractPart = {
  subject: 'acquire request',
  tests: {
    'gets the same reply if it is repeated': onlyWith([repeats], async (fixture) => {
      const first = await fixture.grantOf('ann');
      deepStrictEqual(await fixture.grantOf('ann'), first);
    }),

    'restores the full lease if it is repeated, and never shortens it': onlyWith([repeats], async (fixture) => {
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.acquire('ann', LONG_MS);
      await fixture.acquire('ann', fixture.shortMs);
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.statusOf('bob'), 'held');
    }),
  },
};

const inspect: ContractPart = {
  subject: 'inspect',
  tests: {
    'returns holder, remaining lease and token, and null for a free key': async (fixture) => {
      strictEqual(await fixture.inspect(), null);
      const { token } = await fixture.grantOf('ann', LONG_MS);
      const info = await fixture.inspect();
      deepStrictEqual([info?.holder, info?.token], [fixture.instanceId, token]);
      fixture.assertRemaining(info?.remainingMs, LONG_MS);
    },
  },
};

/** Tests what every store has to do. */
export const basicContract: readonly ContractPart[] = [
  exclusion,
  names,
  release,
  expiry,
  extend,
  acquireRequest,
  inspect,
];
