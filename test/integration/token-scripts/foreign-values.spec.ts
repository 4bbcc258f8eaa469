// What the scripts do with what they have not written. Redis has its own clock here: no lease ends.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { ioredis } from '../../support/client-libraries.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { Instance, LONG_MS } from './instance.js';

let server: RedisServer;
let admin: Redis;
let here: Instance;

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
beforeEach(async () => {
  here = new Instance(await ioredis.connect(server.url), '{family}:300');
});
afterEach(async () => {
  await here.close();
  await admin.flushall();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

it('the value of another client is a lock', async () => {
  const value = 'f47ac10b';
  await admin.set(here.key, value, 'PX', LONG_MS);
  const refusal = await here.acquire('ann', { wait: false });
  expect(refusal).toMatchObject({ status: 'held', isForeign: true, holder: undefined });
  expect([await here.release('ann'), await here.extend('ann')]).toEqual([false, 'lost']);
  expect(await here.store.inspect(here.key)).toMatchObject({ holder: value, token: undefined });
  await admin.persist(here.key);
  expect(await here.acquire('ann', { wait: false })).toMatchObject({ remainingMs: Infinity });
  expect(await here.force()).toBe(true);
  expect(await here.statuses('bob')).toEqual(['granted']);
});

it('a queue entry of another version, whose instance listens elsewhere, is removed', async () => {
  await here.listens();
  await admin.zadd(`${here.key}|queue`, 1, 'v1-old:2/secret');
  expect(await here.statuses('ann')).toEqual(['granted']);
});

it('a renewal of a reader restores the marker of the lock if it was deleted', async () => {
  here.setMode('shared', 'ann');
  await here.acquire('ann', { leaseMs: 30_000 });
  await admin.del(here.key);
  expect(await here.extend('ann', LONG_MS)).toBe('renewed');
  expect(await admin.get(here.key)).toBe('v2-*');
  expect(await admin.pttl(here.key)).toBeGreaterThan(30_000);
});

it('a marker without readers is free, and a reader beside a foreign value has lost the lock', async () => {
  await admin.set(here.key, 'v2-*', 'PX', LONG_MS);
  expect(await here.store.inspect(here.key)).toBeNull();
  expect(await here.statuses('ann')).toEqual(['granted']);
  await here.release('ann');
  here.setMode('shared', 'bob', 'cid', 'dot');
  await here.all('bob', 'cid', 'dot');
  await admin.set(here.key, 'foreign', 'PX', LONG_MS);
  expect([await here.extend('bob'), await here.release('cid'), ...(await here.statuses('dot'))]).toEqual([
    'lost',
    false,
    'held',
  ]);
  expect(await here.store.inspect(here.key)).toMatchObject({ holder: 'foreign', others: [] });
  expect(await here.force()).toBe(true);
  expect(await here.statuses('eve')).toEqual(['granted']);
});
