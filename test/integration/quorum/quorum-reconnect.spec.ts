import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-redis-lock';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';

/** The next renewal of a lease of 90 s is due after 30 s. The clients need up to some seconds to connect again. */
const TTL_MS = 90_000;
const SOON_MS = 15_000;

let here: Masters;

beforeEach(async () => {
  here = await Masters.start({}, {}, {});
});
afterEach(() => here.close());

describe('masters that restart without their data', () => {
  it('get the lock back at once if they are a minority', async () => {
    const lock = await here.instance({ ttlMs: TTL_MS }).acquire('goods:300');
    await eventually('all have it', async () => (await here.admins[0].exists(here.key)) === 1);
    await here.servers[0].kill();
    await here.servers[0].restart();
    const isRestored = async (): Promise<boolean> => (await here.admins[0].exists(here.key)) === 1;
    await eventually('it has the lock again', isRestored, SOON_MS);
    expect(await lock.release()).toBe(true);
  });

  it('show the holder at once that its lock is lost if they are a majority', async () => {
    const { signal } = await here.instance({ ttlMs: TTL_MS }).acquire('goods:300');
    // A master that has not received the request would get it again after its restart, and keep the lock.
    await here.lockedOn(3);
    for (const server of here.servers.slice(0, 2)) await server.kill();
    for (const server of here.servers.slice(0, 2)) await server.restart();
    await eventually('the holder knows', () => signal.aborted, SOON_MS);
    expect(signal.reason).toBeInstanceOf(LockLostError);
  });
});
