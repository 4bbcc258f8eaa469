import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { quorum } from 'nestjs-redis-lock/quorum';
import { ManualClock } from 'nestjs-redis-lock/testing';

function unused(): never {
  throw new Error('nobody is asked');
}

it('an ask that comes too late is told so, and sent to nobody, even while nothing is known of the nodes', async () => {
  const clock = new ManualClock();
  const clients = [7001, 7002, 7003].map((port) => new Redis({ port, lazyConnect: true }));
  const open = (client: unknown) => ({ client: client as Redis, subscriber: unused });
  const store = quorum(clients)({ clock, requestTimeoutMs: 1_000, redis: unused, subscriber: unused, open });
  const late = { expiresAt: clock.now(), keys: ['goods:300'], owner: 'ann 1', leaseMs: 1_000, tokens: 1 };
  const ask = { ...late, handoffMs: 1_000, queue: false, mode: 'exclusive' } as const;
  expect(await store.acquire(ask)).toEqual({ status: 'expired' });
  expect(clients.map(({ status }) => status)).toEqual(['wait', 'wait', 'wait']);
});
