import { afterEach, expect, it, jest } from '@jest/globals';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { freeStuckLock } from './force-release.js';
import { InvoiceService } from './lost.js';

afterEach(() => void jest.restoreAllMocks());

it('the page on guarantees passes the signal of its lock on, and sends the invoice', async () => {
  const fetched = jest.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('sent'));
  await withLocks(new InvoiceService()).send({ id: '1' });
  expect(fetched.mock.calls).toEqual([
    ['https://mail.example/send', { method: 'POST', signal: expect.any(AbortSignal) }],
  ]);
});

it('the page on guarantees has a method that does not run unlocked', async () => {
  await expect(new InvoiceService().send({ id: '1' })).rejects.toThrow('not made by Nest');
});

it('the page on guarantees frees the lock that was looked at', async () => {
  const locks = createTestLocks();
  expect(await freeStuckLock(locks, 'goods:300')).toBe(false);
  const lock = await locks.acquire('goods:300');
  expect(await freeStuckLock(locks, 'goods:300')).toBe(true);
  expect(() => lock.assertHeld()).toThrow('released by force');
});
