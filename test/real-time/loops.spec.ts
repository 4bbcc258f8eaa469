import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type LockService, memory } from 'nestjs-redis-lock';
import { RedisLocks } from '../support/redis-locks.js';

/** More calls than one turn of the event loop admits. */
const CALLS = 5_000;

/** Makes calls one after the other. Returns whether a timer has fired meanwhile. */
async function firesDuring(call: () => Promise<unknown>): Promise<boolean> {
  let hasFired = false;
  const timer = setTimeout(() => (hasFired = true), 0);
  for (let i = 0; i < CALLS; i += 1) await call().catch(() => undefined);
  clearTimeout(timer);
  return hasFired;
}

describe('a loop of calls that have their outcome at once lets timers fire', () => {
  let running: RedisLocks;
  let locks: LockService;

  beforeEach(() => {
    running = new RedisLocks();
    locks = running.start({ store: memory() });
  });
  afterEach(() => running.close());

  it('if each gets the lock', async () => {
    expect(await firesDuring(() => locks.using('goods:300', () => undefined))).toBe(true);
  });

  it('if others hold the lock', async () => {
    const lock = await locks.acquire('goods:300');
    expect(await firesDuring(() => locks.tryAcquire('goods:300'))).toBe(true);
    await lock.release();
  });

  it('if too many callers wait', async () => {
    const lock = await locks.acquire('goods:300');
    const waiting = locks.acquire('goods:300');
    expect(await firesDuring(() => locks.acquire('goods:300', { maxWaiting: 1 }))).toBe(true);
    await lock.release();
    await (await waiting).release();
  });

  it('after a shutdown', async () => {
    await running.close();
    await expect(locks.tryAcquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_CLOSED' });
    expect(await firesDuring(() => locks.tryAcquire('goods:300'))).toBe(true);
  });

  it('in an outage', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const redis = `redis://127.0.0.1:${port}`;
    const away = running.start({ redis, checks: 'off', unavailableAfterMs: 1 });
    await expect(away.acquire('goods:300')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(await firesDuring(() => away.tryAcquire('goods:300'))).toBe(true);
  });
});
