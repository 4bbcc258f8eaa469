import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { asPort } from '../../../support/client-port.js';

function unused(): never {
  throw new Error('no connection is opened');
}

it('does not send an acquire that has expired, even if no node is known', async () => {
  const clock = new ManualClock();
  const clients = [7001, 7002, 7003].map((port) => new Redis({ port, lazyConnect: true }));
  const context = { clock, requestTimeoutMs: 1_000, prefix: 'lock_', redis: unused, open: asPort };
  const store = quorum(clients)(context);
  const expired = { expiresAt: clock.now(), keys: ['goods:300'], owner: 'ann 1', leaseMs: 1_000, tokens: 1 };
  const request = { ...expired, handoffMs: 1_000, queue: false, mode: 'exclusive' } as const;
  expect(await store.acquire(request)).toEqual({ status: 'expired' });
  expect(clients.map(({ status }) => status)).toEqual(['wait', 'wait', 'wait']);
});
