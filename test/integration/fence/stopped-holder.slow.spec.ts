import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockProcess } from '../../support/lock-process.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';

const prefix = uniquePrefix();
const options = { redis: testRedisUrl(), prefix, waitMs: 60_000, requestTimeoutMs: 60_000 };

let redis: Redis;
let first: LockProcess;
let second: LockProcess;
let order: string;

beforeAll(async () => {
  redis = new Redis(testRedisUrl());
  [first, second] = await Promise.all([LockProcess.start(options), LockProcess.start(options)]);
});
beforeEach(() => {
  order = `${uniquePrefix()}order:{300}`;
});
afterAll(async () => {
  await Promise.all([first.kill(), second.kill()]);
  const keys = await redis.keys(`*${prefix}*`);
  if (keys.length > 0) await redis.del(keys);
  await redis.quit();
});

describe('a holder that is stopped past its lease and continues', () => {
  /** The first holder reads and is stopped. The second adds its line. The first continues and adds its own. */
  async function twoHolders(write: 'write' | 'writeFenced') {
    const add = async (holder: LockProcess, line: string) => {
      const lines = await holder.call('read', order);
      return () => holder.call(write, order, lines === null ? line : `${lines} ${line}`);
    };
    const firstToken = await first.call('acquire', order);
    if (write === 'writeFenced') await first.call('openFence', order);
    const lateWrite = await add(first, 'first');
    first.pause();
    // As at the end of its lease. The tokens stay.
    const keys = await redis.keys(`*${prefix}*`);
    await redis.del(keys.filter((key) => !key.endsWith('|fence')));
    const secondToken = await second.call('acquire', order);
    expect(secondToken).toBeGreaterThan(firstToken);
    if (write === 'writeFenced') await second.call('openFence', order);
    await (
      await add(second, 'second')
    )();
    // The command is in the pipe when the process continues, as the next line of a program would be.
    const late = lateWrite().then(
      () => 'written',
      (error: unknown) => String(error),
    );
    first.resume();
    const outcome = { late: await late, lines: await redis.get(order) };
    await redis.del(order, `${order}|opened`);
    return outcome;
  }

  it('is refused, and no update is lost', async () => {
    const { late, lines } = await twoHolders('writeFenced');
    expect(late).toContain('StaleFenceError');
    expect(lines).toBe('second');
  });

  it('overwrites the update of the other holder without a fence', async () => {
    expect(await twoHolders('write')).toEqual({ late: 'written', lines: 'first' });
  });
});
