import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-redis-lock';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';

/** No renewal is due before the end of a test. */
const LONG = { ttlMs: 90_000 };
import { needWallClocks } from '../../support/server-clock/shim.js';

needWallClocks();

let here: Masters;

beforeAll(async () => {
  here = await Masters.startStopped(3);
});
afterEach(() => here.clear());
afterAll(() => here.close());

describe('a release by force on a quorum', () => {
  it('ends the hold while a minority hangs, and there as well when it goes on', async () => {
    const lock = await (await here.instance(LONG)).acquire('goods:300');
    await here.lockedOn(3);
    const other = await here.instance();
    here.pause(2);
    expect(await other.forceRelease('goods:300')).toBe(true);
    here.resume(2);
    await here.lockedOn(0);
    const next = await other.acquire('goods:300');
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await lock.release()).toBe(false);
    await next.extend();
    expect(await next.release()).toBe(true);
  });

  it('is repeated at a master that was down', async () => {
    const way = await here.way(2);
    const lock = await (await here.instance(LONG)).acquire('goods:300');
    await here.lockedOn(3);
    const other = await here.instance({}, { nodes: [...here.urls.slice(0, 2), way.url] });
    await way.refuseConnections();
    way.reset();
    await eventually('it is cut off', () => way.connectionCount === 0);
    expect(await other.forceRelease('goods:300', { ifToken: lock.fencingToken })).toBe(true);
    await here.lockedOn(1);
    await way.acceptConnections();
    await here.lockedOn(0);
  });

  it('ends the hold with that token only', async () => {
    const lock = await (await here.instance(LONG)).acquire('goods:300');
    const other = await here.instance();
    expect(await other.forceRelease('goods:300', { ifToken: lock.fencingToken + 1 })).toBe(false);
    await lock.extend();
    const seen = await other.inspect('goods:300');
    expect(await other.forceRelease('goods:300', { ifToken: seen?.fencingToken })).toBe(true);
    expect(await other.inspect('goods:300')).toBeNull();
  });

  it('ends the holds of all readers, and a writer is next', async () => {
    const share = async (): Promise<Lock> => (await here.instance(LONG)).acquire('goods:300', { mode: 'shared' });
    const readers = await Promise.all([share(), share()]);
    const other = await here.instance();
    expect(await other.forceRelease('goods:300')).toBe(true);
    const writer = await other.acquire('goods:300');
    for (const reader of readers) expect(await reader.release()).toBe(false);
    expect(await writer.release()).toBe(true);
  });

  it('is known to the holder by its next renewal, and at once in its own instance', async () => {
    const lock = await (await here.instance({ ttlMs: 1_500 })).acquire('goods:300');
    expect(await (await here.instance()).forceRelease('goods:300')).toBe(true);
    await here.clock.advanceUntil('it is lost', () => lock.signal.aborted, 1_500);
    expect((lock.signal.reason as Error).message).toContain('belongs to someone else');
    const mine = await here.instance(LONG);
    const held = await mine.acquire('goods:302');
    expect(await mine.forceRelease('goods:302')).toBe(true);
    await eventually('it is lost, too', () => held.signal.aborted);
    expect((held.signal.reason as Error).message).toContain('it was released by force');
  });

  it('rejects without a majority, and has no effect later', async () => {
    const lock = await (await here.instance(LONG)).acquire('goods:300');
    await here.lockedOn(3);
    const other = await here.instance();
    for (const master of [0, 1]) here.pause(master);
    await expect(here.clock.until(other.forceRelease('goods:300'))).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    for (const master of [0, 1]) here.resume(master);
    await lock.extend();
    expect(await here.locked()).toBeGreaterThanOrEqual(2);
  });
});
