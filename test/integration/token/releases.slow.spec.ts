import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';
import { type Build, type ContendMode, frozenReleases, nameOf, ReleaseProcess } from '../../support/release-process.js';

/** Longer than a process waits on a machine that is busy. */
const PATIENT = { waitMs: 120_000, requestTimeoutMs: 20_000 };
const PREFIX = 'lock_';
const KEY = '{lock_goods}:300';
const QUEUE = `${KEY}|queue`;
const INSIDE = 'inside';

const EXCLUSIVE: ContendMode = { kind: 'exclusive' };
const SHARED: ContendMode = { kind: 'shared', mode: 'shared' };
const PERMITS: ContendMode = { kind: 'permits', permits: 3, most: 3 };

let server: RedisServer;
let admin: Redis;
const processes: ReleaseProcess[] = [];

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

async function start(build: Build, quorumNodes?: readonly string[]): Promise<ReleaseProcess> {
  const identity = typeof build === 'string' ? build : `frozen-${build.wire}`;
  const given = { redis: server.url, prefix: PREFIX, identity, ...PATIENT };
  const started = await ReleaseProcess.start(build, server.url, given, quorumNodes);
  processes.push(started);
  return started;
}

const startAll = (...builds: readonly Build[]): Promise<ReleaseProcess[]> =>
  Promise.all(builds.map((build) => start(build)));

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

describe.each(frozenReleases().map((release) => [nameOf(release), release] as const))(
  'the release %s beside the present code',
  (_name, release) => {
    it.each([
      ['exclusive', [EXCLUSIVE]],
      ['shared and exclusive', [SHARED, SHARED, EXCLUSIVE]],
      ['with permits and exclusive', [PERMITS, PERMITS, EXCLUSIVE]],
      ['shared, with permits and exclusive', [SHARED, PERMITS, EXCLUSIVE]],
      ['kept and exclusive', [{ ...EXCLUSIVE, keepMs: 10_000 }, EXCLUSIVE]],
    ] as const)('excludes and is excluded: %s', async (_mode, modes) => {
      const all = await startAll(release, 'present', release, 'present');
      await Promise.all(all.map((each) => each.contend('goods:300', modes, 40, INSIDE)));
      // Every kept lock is released with the others' last request, or with its process.
      if (modes.some((mode) => 'keepMs' in mode)) await (await start('present')).acquire('goods:300');
      else await expectSound();
      expect(await admin.lrange(`${INSIDE}:faults`, 0, -1)).toEqual([]);
    });

    it('excludes and is excluded with several keys at once', async () => {
      const all = await startAll(release, 'present', release, 'present');
      const pairs = [
        ['goods:300', 'goods:301'],
        ['goods:301', 'goods:300'],
        ['goods:300', 'goods:302'],
      ];
      await Promise.all(
        all.map(async (each, i) => {
          await each.contend(pairs[i % 3], [EXCLUSIVE], 20, INSIDE);
          await each.contend('goods:300', [EXCLUSIVE], 10, INSIDE);
        }),
      );
      await expectSound();
    });

    it('hands the lock off in the order of arrival, in both directions', async () => {
      const all = await startAll('present', release, 'present', release);
      const order: number[] = [];
      await all[0].acquire('goods:300');
      const waits: Promise<unknown>[] = [];
      const takeTurn = async (each: ReleaseProcess, i: number): Promise<void> => {
        await each.acquire('goods:300');
        order.push(i);
        await each.release('goods:300');
      };
      for (const [i, each] of [...all.slice(1), await start(release)].entries()) {
        waits.push(takeTurn(each, i));
        await queueOf(i + 1);
      }
      await all[0].release('goods:300');
      await Promise.all(waits);
      expect(order).toEqual([0, 1, 2, 3]);
      expect(await locksLeft()).toEqual([]);
    });

    it.each(['release', 'present'])('gives up a lock that it keeps, if the other wants it (%s)', async (keeper) => {
      const [keeping, wanting] = keeper === 'release' ? [release, 'present' as const] : ['present' as const, release];
      const first = await start(keeping);
      const second = await start(wanting);
      await eventually('the lock is kept', async () => {
        await first.acquire('goods:300', { keepMs: 10_000 });
        await first.release('goods:300');
        return (await admin.exists(KEY)) === 1;
      });
      await admin.config('RESETSTAT');
      await second.acquire('goods:300');
      // It was given back, and has not expired.
      expect(await admin.info('stats')).toMatch(/^expired_keys:0\r$/m);
      expect(await second.release('goods:300')).toBe(true);
    });

    it.each(['release', 'present'])('loses a lock that the other releases by force (%s holds it)', async (holder) => {
      const [holding, forcing] = holder === 'release' ? [release, 'present' as const] : ['present' as const, release];
      const first = await start(holding);
      const second = await start(forcing);
      for (const options of [{}, { mode: 'shared' }, { permits: 2 }] as const) {
        await first.acquire('goods:300', { ttlMs: 300_000, ...options });
        expect(await second.inspect('goods:300')).toMatchObject({ isHeld: true, isOwn: false });
        const next = second.acquire('goods:300');
        await queueOf(1);
        expect(await second.forceRelease('goods:300')).toBe(true);
        expect(await first.untilLost('goods:300')).toBe('LOCK_LOST');
        await next;
        await second.release('goods:300');
      }
    });

    it('excludes and is excluded on a quorum', async () => {
      const nodes = await Promise.all([1, 2, 3].map(() => startRedis({ local: true })));
      const urls = nodes.map(({ url }) => url);
      const all = await Promise.all([release, 'present' as const, release].map((build) => start(build, urls)));
      await Promise.all(all.map((each) => each.contend('goods:300', [SHARED, EXCLUSIVE], 15, INSIDE)));
      await expectSound();
      await all[0].acquire('goods:300');
      expect(await all[1].forceRelease('goods:300')).toBe(true);
      await all[1].acquire('goods:300');
      expect(await all[2].inspect('goods:300')).toMatchObject({ isHeld: true, identity: 'present' });
      await Promise.all(nodes.map((node) => node.stop()));
    });

    it('skips a waiter of the other that was killed', async () => {
      const [holder, dead, waiter] = await startAll('present', release, 'present');
      await holder.acquire('goods:300');
      void dead.acquire('goods:300').catch(() => undefined);
      await queueOf(1);
      const granted = waiter.acquire('goods:300');
      await queueOf(2);
      await dead.kill();
      await eventually('its subscription is gone', async () => {
        return ((await admin.pubsub('CHANNELS', '*nestjs-redis-lock:*')) as string[]).length <= 2;
      });
      await holder.release('goods:300');
      await granted;
      expect(await waiter.release('goods:300')).toBe(true);
    });
  },
);

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
