import { describe, expect, it } from '@jest/globals';
import type { AcquireRequest, LockState } from '../../../../lib/core/store/lock-store.js';
import { decodeAcquireReply, isFoundElsewhere } from '../../../../lib/stores/token/token-scripts.js';

const REQUEST = { keys: ['{lock_goods}:300'] } as unknown as AcquireRequest;

describe('the holder in a reply', () => {
  it.each([
    ['a value of redis-semaphore', 'd1b7a3f0-5c1e-4b0c-9a51-0f3f1f0e2a11', undefined, true],
    ['an own value', 'v1-api:7/secret 123', undefined, undefined],
    ['a sharer', 'v1-api:7/secret *', 2, undefined],
    ['a value of another wire version', 'v2-api:7/secret', undefined, undefined],
    ['nobody', '', undefined, undefined],
  ])('is foreign only if another system wrote it: %s', (_which, holder, count, isForeign) => {
    const reply = decodeAcquireReply(REQUEST, { status: 3, value: 1_000, now: 1, holder, count }, undefined);
    expect(reply).toMatchObject({ status: 'held', queued: true, isForeign });
  });
});

const held = { holder: 'api-1', remainingMs: 30_000 };

it.each<[string, string, object]>([
  ['its own', 'held exclusively', held],
  ['its own', 'held and waited for', { ...held, waiting: [{ waiter: 'api-2' }] }],
  ["its queue's", 'held by readers', { ...held, mode: 'shared' }],
  ["its queue's", 'only waited for', { waiting: [{ waiter: 'api-2' }] }],
])('a listing of many locks finds a lock by %s key alone if it is %s', (by, _what, state) => {
  const ways = [true, false].filter((byOwnKey) => !isFoundElsewhere('goods:300', state as LockState, byOwnKey));
  expect(ways).toEqual([by === 'its own']);
});
