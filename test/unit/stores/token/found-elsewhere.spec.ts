import { expect, it } from '@jest/globals';
import type { LockState } from '../../../../lib/core/store/lock-store.js';
import { isFoundElsewhere } from '../../../../lib/stores/token/token-scripts.js';

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
