import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict';
import type { AcquireReply } from '../../lib/core/store/lock-store.js';
import { permits, queue, severalKeys, shared } from './needs.js';
import { type ContractPart, LONG_MS, onlyWith, type StoreFixture, TIMEOUT_MS } from './store-fixture.js';

/** Tests that a request for several keys acquires all or none. */
export const multiKeyContract: ContractPart = {
  subject: 'acquire request for several keys',
  needs: [severalKeys],
  tests: {
    'grants all keys with one token, each a lock of its own': async (fixture) => {
      const [one, two] = keysOf(fixture, 2);
      const before = await fixture.tokenOf('zoe');
      const reply = await acquireAll(fixture, 'ann', [one, two]);
      ok(reply.status === 'granted');
      strictEqual(reply.tokens, 1);
      for (const key of [one, two]) {
        strictEqual(await statusAt(fixture, key), 'held');
        const state = await fixture.under.store.inspect(key);
        strictEqual(state?.token, reply.token);
        fixture.assertRemaining(state?.remainingMs, LONG_MS);
      }
      strictEqual(await fixture.release('ann', 0, { key: one }), true);
      strictEqual(await statusAt(fixture, two), 'held');
      const next = await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { key: one });
      ok(next.status === 'granted');
      if (fixture.capabilities.fencing) ok(before < Number(reply.token) && Number(reply.token) < Number(next.token));
    },

    'grants no key if one is held, and names that key': async (fixture) => {
      const [one, two, three] = keysOf(fixture, 3);
      await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { key: two });
      const reply = await acquireAll(fixture, 'ann', [one, two, three]);
      ok(reply.status === 'held');
      deepStrictEqual([reply.queued, reply.key], [false, two]);
      fixture.assertRemaining(reply.remainingMs, LONG_MS);
      for (const key of [one, three]) strictEqual(await statusAt(fixture, key), 'granted');
    },

    'has no effect after its deadline': async (fixture) => {
      const [one, two] = keysOf(fixture, 2);
      const reply = await fixture.acquire('ann', LONG_MS, -TIMEOUT_MS, { keys: [one, two] });
      strictEqual(reply.status, 'expired');
      for (const key of [one, two]) strictEqual(await statusAt(fixture, key), 'granted');
    },

    'is granted again if it is repeated': async (fixture) => {
      const keys = keysOf(fixture, 2);
      strictEqual((await acquireAll(fixture, 'ann', keys)).status, 'granted');
      strictEqual((await acquireAll(fixture, 'ann', keys)).status, 'granted');
      for (const key of keys) strictEqual(await fixture.release('ann', 0, { key }), true);
      for (const key of keys) strictEqual(await statusAt(fixture, key), 'granted');
    },

    'does not overtake a waiter of one of the keys': onlyWith([queue, shared], async (fixture) => {
      const [one, two] = keysOf(fixture, 2);
      await fixture.listen();
      fixture.setMode('shared', 'ann', 'bob');
      await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { key: two });
      const waiting = await fixture.acquire('cid', LONG_MS, TIMEOUT_MS, { key: two });
      ok(waiting.status === 'held' && waiting.queued);
      const reply = await acquireAll(fixture, 'ann', [one, two]);
      ok(reply.status === 'held');
      strictEqual(reply.key, two);
      strictEqual(await fixture.release('bob', 0, { key: two }), true);
      deepStrictEqual(await fixture.handoffsTo(1), ['cid']);
      strictEqual(await fixture.release('cid', 0, { key: two }), true);
      strictEqual((await acquireAll(fixture, 'ann', [one, two])).status, 'granted');
    }),

    'grants a shared lock of keys that are held as shared': onlyWith([shared], async (fixture) => {
      const [one, two] = keysOf(fixture, 2);
      fixture.setMode('shared', 'ann', 'bob');
      await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { key: two });
      strictEqual((await acquireAll(fixture, 'ann', [one, two])).status, 'granted');
      for (const key of [one, two]) strictEqual(await statusAt(fixture, key), 'held');
      strictEqual(await fixture.release('ann', 0, { key: one }), true);
      strictEqual(await fixture.release('ann', 0, { key: two }), true);
      strictEqual(await statusAt(fixture, one), 'granted');
      strictEqual(await statusAt(fixture, two), 'held');
      strictEqual((await acquireAll(fixture, 'cid', [two])).status, 'held');
    }),

    'grants one permit of each key, or none': onlyWith([permits], async (fixture) => {
      const [one, two] = keysOf(fixture, 2);
      fixture.setMode(2, 'ann', 'bob', 'cid');
      fixture.setMode(3, 'dan');
      await fixture.acquire('bob', LONG_MS, TIMEOUT_MS, { key: two });
      const differing = await acquireAll(fixture, 'dan', [one, two]);
      ok(differing.status === 'permits-mismatch');
      deepStrictEqual([differing.permits, differing.key], [2, two]);
      strictEqual((await acquireAll(fixture, 'ann', [one, two])).status, 'granted');
      const refused = await acquireAll(fixture, 'cid', [one, two]);
      ok(refused.status === 'held');
      strictEqual(refused.key, two);
    }),
  },
};

function keysOf({ key }: StoreFixture, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${key}:${i}`);
}

function acquireAll(fixture: StoreFixture, name: string, keys: readonly string[]): PromiseLike<AcquireReply> {
  return fixture.acquire(name, LONG_MS, TIMEOUT_MS, { keys, queue: false });
}

/** Returns the status of a new caller's request for the key. Releases the key again if it is granted. */
async function statusAt(fixture: StoreFixture, key: string): Promise<string> {
  const stranger = `stranger at ${key}`;
  const { status } = await fixture.acquire(stranger, LONG_MS, TIMEOUT_MS, { key, queue: false });
  if (status === 'granted') await fixture.release(stranger, 0, { key });
  return status;
}
