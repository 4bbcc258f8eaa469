import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';
import { type Build, type ContendMode, WireProcess } from '../../support/wire-process.js';

/** Longer than a process waits on a machine that is busy. */
const PATIENT = { waitMs: 120_000, unavailableAfterMs: 120_000 };
const PREFIX = 'lock_';
const KEY = '{lock_goods}:300';
const QUEUE = `${KEY}|queue`;
const INSIDE = 'inside';

const EXCLUSIVE: ContendMode = { kind: 'exclusive' };
const SHARED: ContendMode = { kind: 'shared', mode: 'shared' };
const PERMITS: ContendMode = { kind: 'permits', permits: 3, most: 3 };

let server: RedisServer;
let admin: Redis;
const processes: WireProcess[] = [];

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.kill()));
  await admin.flushall();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

async function start(build: Build): Promise<WireProcess> {
  const given = { redis: server.url, prefix: PREFIX, identity: build, ...PATIENT };
  const started = await WireProcess.start(build, server.url, given);
  processes.push(started);
  return started;
}

const startAll = (...builds: readonly Build[]): Promise<WireProcess[]> => Promise.all(builds.map(start));

const locksLeft = async (): Promise<readonly string[]> =>
  (await admin.keys(`{${PREFIX}*`)).filter((key) => !key.endsWith('|fence'));

async function queueOf(length: number): Promise<void> {
  await eventually(`${length} are in the queue`, async () => (await admin.zcount(QUEUE, '(0', '+inf')) === length);
}

/** Expects that nobody was inside beside somebody who excludes others, and that tokens have risen. */
async function expectSound(): Promise<void> {
  expect(await admin.lrange(`${INSIDE}:faults`, 0, -1)).toEqual([]);
  const tokens = (await admin.lrange(`${INSIDE}:tokens`, 0, -1)).map(Number);
  expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
  expect(new Set(tokens).size).toBe(tokens.length);
  await eventually('nothing is left', async () => (await locksLeft()).length === 0);
}

describe('the next wire version beside the present one', () => {
  const wireOf = (build: Build): number => (build === 'next' ? 2 : 1);
  const PAIRS = [
    ['next', 'present'],
    ['present', 'next'],
  ] as const;

  it.each(PAIRS)('excludes it in all modes, and both wait and say so (%s holds the lock)', async (holding, refused) => {
    const [first, second] = await startAll(holding, refused);
    const used = `goods:300 is used by ${holding} with wire version ${wireOf(holding)}`;
    const message = new RegExp(`^${used}, and this instance has wire version ${wireOf(refused)}: `);
    for (const held of [{}, { mode: 'shared' }, { permits: 2 }] as const) {
      await first.acquire('goods:300', held);
      for (const options of [{}, { mode: 'shared' }, { permits: 2 }] as const) {
        await expect(second.acquire('goods:300', { ...options, waitMs: 0 })).rejects.toMatchObject({
          code: 'LOCK_TIMEOUT',
          message: expect.stringMatching(message) as unknown,
        });
        expect(await second.tryAcquire('goods:300', options)).toBe(false);
        expect(await second.tryAcquire(['goods:300', 'goods:301'], options)).toBe(false);
      }
      await expect(second.forceRelease('goods:300')).rejects.toMatchObject({
        code: 'LOCK_CONFIG',
        message: expect.stringContaining(`wire version ${wireOf(holding)} holds the lock`) as unknown,
      });
      expect(await second.inspect('goods:300')).toMatchObject({ wireVersion: wireOf(holding), identity: holding });
      expect(await first.isHeld('goods:300')).toBe(true);
      const granted = second.acquire('goods:300');
      expect(await first.release('goods:300')).toBe(true);
      await granted;
      expect(await second.release('goods:300')).toBe(true);
    }
    const warnings = (await second.warnings()).filter((line) => line.includes('wire version'));
    expect(warnings).toHaveLength(1);
  });

  it.each(PAIRS)('is not handed the lock, and gets it when it asks (%s releases it)', async (releasing, waiting) => {
    const [first, second, third] = await startAll(releasing, waiting, releasing);
    await first.acquire('goods:300');
    // The queue is empty, so the waiter cannot know that it will not be served.
    const granted = second.acquire('goods:300');
    await queueOf(1);
    const behind = third.acquire('goods:300');
    await first.release('goods:300');
    await granted;
    expect(await third.tryAcquire('goods:301')).toBe(true);
    expect(await second.release('goods:300')).toBe(true);
    await behind;
    expect(await third.release('goods:300')).toBe(true);
  });

  it('keeps the rules in a crowd of both', async () => {
    const all = await startAll('next', 'present', 'next', 'present');
    await Promise.all(all.map((each) => each.contend('goods:300', [SHARED, PERMITS, EXCLUSIVE], 15, INSIDE)));
    await expectSound();
  });

  it('is followed within the life of the queue, if its waiters are dead', async () => {
    const [holder, dead, next] = await startAll('present', 'next', 'present');
    await holder.acquire('goods:300');
    void dead.acquire('goods:300').catch(() => undefined);
    await queueOf(1);
    await dead.kill();
    await holder.release('goods:300');
    expect(await next.tryAcquire('goods:300')).toBe(false);
    expect(await next.inspect('goods:300')).toMatchObject({ isHeld: false, waiting: [{ wireVersion: 2 }] });
    const granted = next.acquire('goods:300');
    // The requests of the others do not prolong it.
    const leftMs = await admin.pttl(QUEUE);
    expect(leftMs).toBeLessThanOrEqual(60_000);
    await eventually('it is over sooner', async () => (await admin.pttl(QUEUE)) < leftMs - 1_000);
    await admin.pexpire(QUEUE, 1);
    await granted;
  });
});
