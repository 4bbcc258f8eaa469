import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-redis-lock';
import { Masters } from '../../support/masters.js';
import { eventually } from '../../support/redis-locks.js';

/** The next renewal is due after 200 s, when a test that waits for it has failed. */
const TTL_MS = 600_000;

let here: Masters;

beforeEach(async () => {
  here = await Masters.start({}, {}, {});
});
afterEach(() => here.close());

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
