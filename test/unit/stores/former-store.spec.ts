import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { type AcquireRequest, UnansweredError } from '../../../lib/stores/contract.js';
import type { LockStore } from '../../../lib/core/store/lock-store.js';
import { FormerStore } from '../../../lib/stores/former-store.js';
import { outcome } from '../../support/async.js';

const REQUEST: AcquireRequest = {
  key: '{lock_goods}:300',
  owner: 'instance:1',
  mode: 'exclusive',
  leaseMs: 30_000,
  wait: false,
  handoffMs: 250,
};
const RELEASE = { key: REQUEST.key, owner: REQUEST.owner, mode: REQUEST.mode, closedForMs: 0, handoffMs: 1_200 };

function former(inner: Partial<LockStore>) {
  const clock = new ManualClock();
  return { clock, store: new FormerStore(inner as LockStore, { clock, requestTimeoutMs: 1_000 }) };
}

describe('a request that a store of the former contract has not run, because it came too late', () => {
  it('is sent again, with a deadline of its own', async () => {
    const deadlines: number[] = [];
    const { clock, store } = former({
      acquire: ({ expiresAt }) => {
        deadlines.push(expiresAt);
        const granted = { status: 'granted', token: 1, tokens: 17 } as const;
        return Promise.resolve(deadlines.length <= 3 ? { status: 'expired' } : granted);
      },
    });
    const reply = outcome(store.acquire(REQUEST));
    await clock.advance(100);
    expect(reply.value).toMatchObject({ status: 'granted', token: 1 });
    expect(deadlines).toEqual([1_000, 1_025, 1_050, 1_075]);
  });

  it('is not sent again once its owner is released', async () => {
    let requests = 0;
    const { clock, store } = former({
      capabilities: { queue: true } as LockStore['capabilities'],
      acquire: () => {
        requests += 1;
        return Promise.resolve({ status: 'expired' });
      },
      release: () => Promise.resolve(false),
    });
    const reply = outcome(store.acquire(REQUEST));
    await clock.advance(0);
    await store.release(RELEASE);
    await clock.advance(1_000);
    expect(reply.error).toEqual(new UnansweredError('the request could not be delivered in time'));
    expect(requests).toBe(1);
  });
});

it('a store of the former contract that does not know the server of a key hides no error of a request', () => {
  const { store } = former({
    serverOf: () => {
      throw new Error('no such server');
    },
  });
  expect(store.serverOf(REQUEST.key)).toBeUndefined();
});
