import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { Contention } from '../../support/contention.js';
import { eventually } from '../../support/redis-locks.js';

/** What an instance of the next wire version writes. Only its beginning is known. */
const NEXT = 'v2-api-1-AbCdEfGhIjKlMnOp:7/sEcReT';
const IDENTITY = 'api-1';

let here: Contention;
let queue: string;

beforeAll(async () => {
  here = await Contention.start();
});
afterEach(() => here.clear());
afterAll(() => here.close());

/** Returns the whole queue of the lock and the rest of its life. */
async function queueState(): Promise<{ readonly entries: readonly string[]; readonly leftMs: number }> {
  return { entries: await here.admin.zrange(queue, '0', '-1', 'WITHSCORES'), leftMs: await here.admin.pttl(queue) };
}

/** Writes an entry into the queue, with a score and a life. */
async function enqueue(entry: string, score: number, lifeMs = 50_000): Promise<void> {
  await here.admin.zadd(queue, score, entry);
  await here.admin.pexpire(queue, lifeMs);
}

const refused = async (locks: LockService, options = {}): Promise<LockTimeoutError> => {
  const error = await locks.acquire('goods:300', { waitMs: 0, ...options }).then(
    () => undefined,
    (each: Error) => each,
  );
  expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
  return error as LockTimeoutError;
};

const BOTH =
  /^goods:300 is used by api-1 with wire version 2, and this instance has wire version 1: refused after \d+ ms/;
const MODES = [{}, { mode: 'shared' }, { permits: 3 }] as const;

describe('an instance that meets the next wire version', () => {
  let locks: LockService;
  beforeEach(() => {
    queue = `${here.key}|queue`;
    locks = here.instance();
  });

  it('waits for its exclusive lock and says so', async () => {
    await here.admin.set(here.key, `${NEXT} whatever`, 'PX', 60_000);
    for (const options of MODES) {
      const error = await refused(locks, options);
      expect(error.message).toMatch(BOTH);
      expect(error.publicMessage).toMatch(/^goods:300 is locked by others/);
      expect(error.heldBy).toBe(IDENTITY);
    }
    const waiting = locks.acquire('goods:300');
    await here.queueOf(1);
    expect(await here.admin.get(here.key)).toBe(`${NEXT} whatever`);
    await here.admin.del(here.key);
    await (await waiting).release();
    expect(here.warnings.filter((line) => line.includes('wire version 2'))).toHaveLength(1);
  });

  it('waits for its shared lock, and leaves its entries and their times as they are', async () => {
    // By the times of this version its share would be over.
    await enqueue(`${NEXT} *`, -1);
    await enqueue(`${NEXT}2 *`, -2);
    const before = await queueState();
    for (const options of MODES) expect((await refused(locks, options)).message).toMatch(BOTH);
    const waits = MODES.map((options) =>
      locks.acquire('goods:300', { ...options, waitMs: 300 }).catch((e: Error) => e.message),
    );
    for (const message of await Promise.all(waits)) expect(message).toMatch(BOTH);
    const { entries, leftMs } = await queueState();
    expect(entries).toEqual(before.entries);
    expect(leftMs).toBeLessThanOrEqual(before.leftMs);
    await here.admin.del(queue);
    await (await locks.acquire('goods:300')).release();
  });

  it.each(MODES)('stops before it in the queue, and frees the lock (%j)', async (options) => {
    const lock = await locks.acquire('goods:300', options);
    const last = (await here.admin.zrange(queue, '-1', '-1')).length;
    await here.admin.zadd(queue, 1, NEXT);
    await here.admin.pexpire(queue, 50_000);
    expect(await here.queueLength()).toBe(last + 1);
    await lock.release();
    expect(await here.admin.get(here.key)).toBeNull();
    expect(await here.admin.zrange(queue, '0', '-1')).toEqual([NEXT]);
    const before = await queueState();
    for (const each of MODES) expect((await refused(locks, each)).message).toMatch(BOTH);
    const waiting = locks.acquire('goods:300', options);
    await here.admin.exists(here.key);
    const after = await queueState();
    expect(after.entries).toEqual(before.entries);
    expect(after.leftMs).toBeLessThanOrEqual(before.leftMs);
    await here.admin.zrem(queue, NEXT);
    await (await waiting).release();
  });

  it('hands the lock to the waiters before it, and not to it', async () => {
    const lock = await locks.acquire('goods:300');
    const { granted } = await here.enqueue(() => here.instance().acquire('goods:300'));
    await here.admin.zadd(queue, 1_000, NEXT);
    await lock.release();
    await (await granted).release();
    expect(await here.admin.zrange(queue, '0', '-1')).toEqual([NEXT]);
    expect(await here.admin.get(here.key)).toBeNull();
  });

  it('publishes nothing to it, and its messages have no effect', async () => {
    const received: string[] = [];
    const listener = here.admin.duplicate();
    listener.on('pmessage', (_pattern, channel: string, message: string) => received.push(`${channel} ${message}`));
    await listener.psubscribe(`${here.prefix}nestjs-redis-lock:v2-*`);
    const kept = NEXT.replace(':7/', ':07/');
    await here.admin.set(here.key, `${kept} 17`, 'PX', 60_000);
    await refused(locks);
    await here.admin.del(here.key);
    await enqueue(kept, 1);
    await refused(locks);
    await expect(locks.forceRelease('goods:300')).resolves.toBe(false);
    await here.admin.publish(`${here.prefix}nestjs-redis-lock:v2-end`, 'end');
    await eventually('the last message has arrived', () => received.length > 0);
    expect(received).toEqual([`${here.prefix}nestjs-redis-lock:v2-end end`]);
    listener.disconnect();
  });

  it('does not acquire it with others, all or none', async () => {
    const pair = (): Promise<unknown> => locks.acquire(['goods:300', 'goods:301'], { waitMs: 0 });
    await enqueue(`${NEXT} *`, -1);
    await expect(pair()).rejects.toThrow(BOTH);
    await here.admin.del(queue);
    await enqueue(NEXT, 1);
    await expect(pair()).rejects.toThrow(BOTH);
    await here.admin.del(queue);
    await here.admin.set(here.key, `${NEXT} 17`, 'PX', 60_000);
    await expect(pair()).rejects.toThrow(BOTH);
    expect(await here.admin.get(here.keyOf('goods:301'))).toBeNull();
  });

  it('refuses to release it by force', async () => {
    const message = /wire version 2 holds the lock; expected wire version 1/;
    await here.admin.set(here.key, `${NEXT} 17`, 'PX', 60_000);
    await expect(locks.forceRelease('goods:300')).rejects.toThrow(message);
    await expect(locks.forceRelease('goods:300', { ifToken: 17 })).rejects.toThrow(message);
    expect(await here.admin.get(here.key)).toBe(`${NEXT} 17`);
    await here.admin.del(here.key);
    await enqueue(`${NEXT} *`, -1);
    await expect(locks.forceRelease('goods:300')).rejects.toThrow(message);
    expect((await queueState()).entries).toEqual([`${NEXT} *`, '-1']);
  });

  it('shows it as another version, without its secret', async () => {
    const other = { holder: 'api-1-AbCdEfGhIjKlMnOp', identity: IDENTITY, wireVersion: 2, isOwn: false };
    await here.admin.set(here.key, `${NEXT} 17`, 'PX', 60_000);
    await enqueue(NEXT, 1);
    const info = await locks.inspect('goods:300');
    expect(info).toMatchObject({
      ...other,
      fencingToken: undefined,
      waiting: [{ waiter: other.holder, wireVersion: 2 }],
    });
    expect(JSON.stringify(info)).not.toContain('sEcReT');
    await here.admin.del(here.key);
    await here.admin.zadd(queue, -1, `${NEXT} what is new`);
    const found = [];
    for await (const lock of locks.list()) found.push(lock);
    expect(found).toMatchObject([{ ...other, mode: 'shared', expiresInMs: 0, waiting: [{ wireVersion: 2 }] }]);
  });
});

describe('the wire', () => {
  it('has its version in values, entries and channels', async () => {
    const [holder, waiter] = [here.instance(), here.instance()];
    const lock = await holder.acquire('goods:300');
    const { granted } = await here.enqueue(() => waiter.acquire('goods:300'));
    expect(await here.admin.get(here.key)).toMatch(/^v1-[\w-]+:\d+\//);
    expect((await here.admin.zrange(`${here.key}|queue`, '0', '0'))[0]).toMatch(/^v1-[\w-]+:\d+\//);
    expect(await here.channels()).toContain(`${here.prefix}nestjs-redis-lock:v1-${waiter.engine.instanceId}`);
    await lock.release();
    await (await granted).release();
  });

  it('respects the values of other systems, which have no version', async () => {
    const locks = here.instance();
    for (const value of ['4f1c1d0c9e', 'v2', 'v2-host:pid', 'v2-host:12', 'v1-host:pid', 'host:1/secret 17']) {
      await here.admin.set(here.key, value, 'PX', 60_000);
      const error = await refused(locks);
      expect(error.message).toMatch(/^goods:300 is locked by others/);
      expect(await here.admin.get(here.key)).toBe(value);
      expect(await locks.inspect('goods:300')).toMatchObject({ holder: value, fencingToken: undefined });
      expect(await locks.forceRelease('goods:300')).toBe(true);
    }
  });
});
