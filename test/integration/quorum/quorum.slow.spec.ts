import { afterEach, describe, expect, it } from '@jest/globals';
import { LockProcess } from '../../support/lock-process.js';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';
import { canSetWallClocks } from '../../support/server-clock/shim.js';
import { clocksAhead } from '../../support/server-clock/wall-clock.js';
import { testRedisUrl } from '../../support/shared-redis.js';
import { Redis } from 'ioredis';

const running: Masters[] = [];

afterEach(() => Promise.all(running.splice(0).map((masters) => masters.close())));

async function start(...environments: readonly NodeJS.ProcessEnv[]): Promise<Masters> {
  const masters = await Masters.start(...environments);
  running.push(masters);
  return masters;
}

const isRising = (tokens: readonly number[]): boolean => tokens.every((token, i) => i === 0 || token > tokens[i - 1]);

describe('ten processes on five masters', () => {
  it('lose no update, and tokens rise, while a master hangs and another is killed', async () => {
    const here = await start({}, {}, {}, {}, {});
    const ledger = new Redis(testRedisUrl());
    const { prefix, servers } = here;
    const options = { redis: testRedisUrl(), nodes: here.urls, prefix, waitMs: 600_000, ttlMs: 60_000 };
    const count = async (): Promise<void> => {
      const worker = await LockProcess.start(options);
      await worker.call('count', 'goods:300', prefix, 10);
      await worker.call('close');
      await worker.kill();
    };
    const ended = Promise.all(Array.from({ length: 10 }, count));
    const counted = async (least: number) => Number(await ledger.get(`${prefix}count`)) >= least;
    await eventually('some have counted', () => counted(10));
    servers[0].pause();
    await eventually('they go on', () => counted(40));
    servers[0].resume();
    await servers[1].kill();
    await eventually('they go on', () => counted(70));
    await ended;
    expect(await ledger.get(`${prefix}count`)).toBe('100');
    const tokens = (await ledger.lrange(`${prefix}tokens`, 0, -1)).map(Number);
    expect(tokens).toHaveLength(100);
    expect(isRising(tokens)).toBe(true);
    await ledger.del(`${prefix}count`, `${prefix}tokens`);
    await ledger.quit();
  });
});

/** No renewal is due, and no limit of a request ends, during a test. */
const PATIENT = { ttlMs: 100_000, requestTimeoutMs: 60_000, waitMs: 60_000 };

describe('masters whose clocks differ by minutes', () => {
  it('keep leases of the same length and give rising tokens, with every majority', async () => {
    if (!canSetWallClocks('masters whose clocks differ')) return;
    const here = await start(...(await clocksAhead(120, 0, -180)));
    const [[first], [second]] = await Promise.all(here.admins.map((admin) => admin.time()));
    expect(first - second).toBeGreaterThan(100);
    const without = (missing: number) => {
      const nodes = here.urls.map((url, i) => (i === missing ? 'redis://127.0.0.1:1' : url));
      return here.instance({ ...PATIENT, fairness: 'strict' }, { nodes, nodeTimeoutMs: 30_000 });
    };
    const majorities = await Promise.all([without(2), without(0), without(1)]);
    const tokens: number[] = [];
    for (let i = 0; i < 12; i++) tokens.push(await majorities[i % 3].using('goods:300', (lock) => lock.fencingToken));
    expect(isRising(tokens)).toBe(true);
    const lock = await (await here.instance(PATIENT, { nodeTimeoutMs: 30_000 })).acquire('goods:300');
    await here.lockedOn(3);
    await lock.extend();
    for (const admin of here.admins) {
      const leaseMs = await admin.pttl(here.key);
      expect(leaseMs).toBeGreaterThan(60_000);
      expect(leaseMs).toBeLessThanOrEqual(100_000);
    }
    expect(await majorities[0].tryAcquire('goods:300')).toBeNull();
    expect(await lock.release()).toBe(true);
    // The master that was ahead restarts empty.
    await here.servers[0].restart();
    tokens.push(lock.fencingToken, await majorities[0].using('goods:300', ({ fencingToken }) => fencingToken));
    expect(isRising(tokens)).toBe(true);
  });
});
