import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import { queue, transfer } from './needs.js';
import { type ContractPart, LONG_MS, onlyWith } from './store-fixture.js';

/** Tests that an exclusive lock can be given to another owner. */
export const transferContract: ContractPart = {
  subject: 'a transfer',
  needs: [transfer],
  tests: {
    'gives the lock to another owner, with its token': async (fixture) => {
      const token = await fixture.tokenOf('ann');
      deepStrictEqual(await fixture.transfer('ann', 'bob'), { status: 'transferred', token, restMs: undefined });
      deepStrictEqual([await fixture.extend('ann'), await fixture.release('ann')], ['lost', false]);
      strictEqual(await fixture.statusOf('cid'), 'held');
      deepStrictEqual([await fixture.extend('bob'), await fixture.release('bob')], ['renewed', true]);
      ok((await fixture.tokenOf('cid')) > token);
    },

    'may set a token, which a repetition does not change': async (fixture) => {
      const token = (await fixture.tokenOf('ann')) + 3;
      const reply = await fixture.transfer('ann', 'bob', { token });
      deepStrictEqual(reply, { status: 'transferred', token, restMs: undefined });
      deepStrictEqual(await fixture.transfer('ann', 'bob', { token: token + 1 }), reply);
      strictEqual((await fixture.inspect())?.token, token);
    },

    'is refused if neither owner has the lock, and changes nothing': async (fixture) => {
      deepStrictEqual(await fixture.transfer('ann', 'bob'), { status: 'free' });
      await fixture.acquire('ann');
      deepStrictEqual(await fixture.transfer('bob', 'cid'), { status: 'others' });
      await fixture.transfer('ann', 'bob');
      await fixture.transfer('bob', 'cid');
      deepStrictEqual(await fixture.transfer('ann', 'bob'), { status: 'others' });
      strictEqual(await fixture.extend('cid'), 'renewed');
      fixture.setMode('shared', 'rob');
      await fixture.release('cid');
      await fixture.acquire('rob');
      deepStrictEqual(await fixture.transfer('cid', 'dot'), { status: 'others' });
    },

    'sets the lease, which a repetition never shortens': async (fixture) => {
      await fixture.acquire('ann', LONG_MS);
      await fixture.transfer('ann', 'bob', { leaseMs: fixture.shortMs });
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.inspect(), null);
      await fixture.acquire('cid', fixture.shortMs);
      await fixture.transfer('cid', 'dot');
      await fixture.transfer('cid', 'dot', { leaseMs: 1 });
      await fixture.transfer('dot', 'dot', { leaseMs: 1 });
      await fixture.outlast(fixture.shortMs);
      strictEqual(await fixture.extend('dot'), 'renewed');
    },

    'may limit how long the lock is held, by all owners together': async (fixture) => {
      const { shortMs } = fixture;
      await fixture.acquire('ann');
      const limited = await fixture.transfer('ann', 'bob', { restMs: shortMs });
      ok(limited.status === 'transferred' && limited.restMs !== undefined && limited.restMs <= shortMs);
      const again = await fixture.transfer('bob', 'cid', { restMs: LONG_MS });
      ok(again.status === 'transferred' && again.restMs !== undefined && again.restMs <= limited.restMs);
      await fixture.transfer('cid', 'cid');
      await fixture.outlast(shortMs);
      strictEqual(await fixture.inspect(), null);
      deepStrictEqual(await fixture.transfer('cid', 'cid'), { status: 'free' });
    },

    'keeps the queue, and the new owner hands off': onlyWith([queue], async (fixture) => {
      await fixture.line(['ann', 'cid']);
      await fixture.transfer('ann', 'bob');
      strictEqual(await fixture.release('bob'), true);
      await fixture.untilWoken('cid');
      strictEqual(await fixture.statusOf('cid'), 'granted');
    }),
  },
};
