import { describe, expect, it } from '@jest/globals';
import { LockLostError, type LockService } from 'nestjs-redis-lock';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';
import { forTests } from '../../support/for-tests.js';

const here = forTests(new Masters(3));

/** The next renewal is due after 200 s, when a test that waits for it has failed. */
const TTL_MS = 600_000;

/** What an instance of the next wire version writes. Only its beginning is known. */
const NEXT = 'v2-api-1-AbCdEfGhIjKlMnOp:7/';

const MINUTE_MICROS = 60e6;

/** Makes a master give tokens as if its clock were ahead: its fence is where its time would be. */
async function setAhead(master: number, minutes: number): Promise<void> {
  const [seconds] = (await here.admins[master].time()) as unknown as [string | number];
  await here.admins[master].set(here.fence, String(Number(seconds) * 1e6 + minutes * MINUTE_MICROS));
}

/** Starts an instance that cannot reach one of the masters. */
function without(missing: number, maxLocalPasses = 0): Promise<LockService> {
  const nodes = here.urls.map((url, i) => (i === missing ? 'redis://127.0.0.1:1' : url));
  return here.instance({ passing: { maxLocalPasses } }, { nodes });
}

const tokenOf = (locks: LockService): Promise<number> => locks.using('goods:300', (lock) => lock.fencingToken);

const isRising = (tokens: readonly number[]): boolean => tokens.every((token, i) => i === 0 || token > tokens[i - 1]);

describe('fencing tokens of a quorum', () => {
  it('rise with every majority, if the clocks differ by minutes', async () => {
    await Promise.all([setAhead(0, 5), setAhead(1, 0), setAhead(2, 2)]);
    const majorities = await Promise.all([without(2), without(0), without(1)]);
    const tokens: number[] = [];
    for (let i = 0; i < 12; i++) tokens.push(await tokenOf(majorities[i % 3]));
    expect(isRising(tokens)).toBe(true);
  });

  it('rise if the master that was ahead restarts empty', async () => {
    await setAhead(0, 2);
    const locks = await here.instance();
    const before = await locks.using('goods:300', async ({ fencingToken }) => {
      // A master whose vote is read after the release does not get the token.
      const fences = () => Promise.all(here.admins.map((admin) => admin.get(here.fence)));
      const isKnown = async () => (await fences()).every((fence) => Number(fence) >= fencingToken);
      await eventually('all masters have the token', isKnown);
      return fencingToken;
    });
    await here.servers[0].restart();
    expect(isRising([before, await tokenOf(await without(2)), await tokenOf(await without(1))])).toBe(true);
  });

  it('are not given to others while they are reserved for local handoff', async () => {
    await setAhead(0, 2);
    const passing = await without(2, 16);
    const block = await Promise.all([1, 2, 3, 4, 5].map(() => tokenOf(passing)));
    expect(new Set(block.slice(1).map((token, i) => token - block[i]))).toContain(1);
    expect(isRising([...block, await tokenOf(await without(0))])).toBe(true);
  });

  it('rise after the loss of all data if the clocks agree', async () => {
    const before = await tokenOf(await here.instance());
    await Promise.all(here.servers.map((server) => server.restart()));
    expect(await tokenOf(await here.instance())).toBeGreaterThan(before);
  });

  it('cost no second request if the clocks agree', async () => {
    const locks = await here.instance();
    await Promise.all(here.admins.map((admin) => admin.config('RESETSTAT')));
    for (let i = 0; i < 50; i++) await tokenOf(locks);
    for (const admin of here.admins) {
      const stats = await admin.info('commandstats');
      const calls = Number(/cmdstat_set:calls=(\d+)/.exec(stats)?.[1]);
      // One SET for the lock and one for the fence. A write-back would be a third.
      expect(calls).toBeLessThan(125);
    }
  });
});

describe('masters that restart without their data', () => {
  it('get the lock back at once if they are a minority', async () => {
    const lock = await (await here.instance({ ttlMs: TTL_MS })).acquire('goods:300');
    await here.lockedOn(3);
    await here.servers[0].kill();
    await here.servers[0].restart();
    const isRestored = async (): Promise<boolean> => (await here.admins[0].exists(here.key)) === 1;
    await eventually('it has the lock again', isRestored);
    expect(await lock.release()).toBe(true);
  });

  it('show the holder at once that its lock is lost if they are a majority', async () => {
    const { signal } = await (await here.instance({ ttlMs: TTL_MS })).acquire('goods:300');
    // A master that has not received the request would get it again after its restart, and keep the lock.
    await here.lockedOn(3);
    for (const server of here.servers.slice(0, 2)) await server.kill();
    for (const server of here.servers.slice(0, 2)) await server.restart();
    await eventually('the holder knows', () => signal.aborted);
    expect(signal.reason).toBeInstanceOf(LockLostError);
  });
});

describe('a quorum that meets the next wire version', () => {
  it('waits for its lock, names both versions, and changes nothing', async () => {
    const locks = await here.instance();
    const values = here.admins.map((_admin, i) => `${NEXT} ${i} *;`);
    await Promise.all(here.admins.map((admin, i) => admin.set(here.key, values[i], 'PX', 60_000)));
    const message = /^goods:300 is used by api-1 with wire version 2, and this instance has wire version 1: /;
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(message);
    expect(await locks.inspect('goods:300')).toMatchObject({ identity: 'api-1', wireVersion: 2, isOwn: false });
    expect(await Promise.all(here.admins.map((admin) => admin.get(here.key)))).toEqual(values);
  });
});
