import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { type FencedCommand, RedisFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { LockProcess } from '../../support/lock-process.js';
import { eventually } from '../../support/redis-locks.js';
import { startRedis, type RedisServer } from '../../support/redis/index.js';
import { freePort } from '../../support/redis/local-server.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';

let redis: Redis;
let order: string;
let fence: RedisFence;

beforeAll(() => {
  redis = new Redis(testRedisUrl());
});
beforeEach(() => {
  order = `${uniquePrefix()}order:{300}`;
  fence = new RedisFence(redis, order);
});
afterEach(async () => {
  await redis.del(order, `${order}|opened`, `${order}:lines`);
});
afterAll(() => redis.quit());

const set = (value: string): FencedCommand[] => [['set', order, value]];

describe('a fence in Redis', () => {
  it('lets in the holder who has opened it, as often as it likes', async () => {
    await fence.open(5);
    expect(await fence.write(5, set('first'))).toEqual(['OK']);
    await fence.open(5);
    expect(await fence.write(5, set('second'))).toEqual(['OK']);
    expect(await redis.get(order)).toBe('second');
  });

  it('refuses the write of a holder after whom another has opened it, though that one has written nothing yet', async () => {
    await fence.open(5);
    await fence.open(6);
    await expect(fence.write(5, set('late'))).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
    await fence.write(6, set('new'));
    expect(await redis.get(order)).toBe('new');
  });

  it('is not opened by a holder who comes after a later one, and stays as it is', async () => {
    await fence.open(6);
    const refusal = (await fence.open(5).catch((error: unknown) => error)) as StaleFenceError;
    expect(refusal).toBeInstanceOf(StaleFenceError);
    expect(refusal).toBeInstanceOf(LockError);
    expect(refusal).toMatchObject({ code: 'LOCK_STALE', name: 'StaleFenceError', resource: order });
    await fence.write(6, set('new'));
  });

  it('refuses whom it does not know: never opened, opened by an earlier holder, lost with the data', async () => {
    await expect(fence.write(5, set('unopened'))).rejects.toThrow(StaleFenceError);
    await fence.open(5);
    await expect(fence.write(6, set('unopened'))).rejects.toThrow(StaleFenceError);
    await redis.del(`${order}|opened`);
    await expect(fence.write(5, set('forgotten'))).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
  });

  it('lets a failover that goes back behind a holder cost that holder its write, and nobody else theirs', async () => {
    await fence.open(5);
    const before = await redis.get(`${order}|opened`);
    await fence.open(6);
    await redis.set(`${order}|opened`, before as string);
    await fence.write(5, set('five'));
    await expect(fence.write(6, set('six, from before five'))).rejects.toThrow(StaleFenceError);
    expect(await redis.get(order)).toBe('five');
  });

  it('tells tokens apart up to 2^53, where texts and numbers of other lengths would not do', async () => {
    const last = Number.MAX_SAFE_INTEGER;
    await fence.open(999);
    await fence.open(last - 1);
    await expect(fence.open(1_000)).rejects.toThrow(StaleFenceError);
    await fence.open(last);
    expect(await redis.get(`${order}|opened`)).toBe('9007199254740991');
    await expect(fence.write(last - 1, set('late'))).rejects.toThrow(StaleFenceError);
    await expect(fence.open(last - 1)).rejects.toThrow(StaleFenceError);
    await fence.write(last, set('last'));
  });

  it.each([Number.NaN, 1.5, -1, 2 ** 53, '5', undefined])('takes no %p for a token', async (token) => {
    await expect(fence.open(token as number)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    await expect(fence.write(token as number, set('x'))).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
  });

  it('is kept for a day after it was opened, or as long as is said', async () => {
    await fence.open(5);
    const DAY_MS = 86_400_000;
    expect(await redis.pttl(`${order}|opened`)).toBeGreaterThan(DAY_MS - 60_000);
    expect(await redis.pttl(`${order}|opened`)).toBeLessThanOrEqual(DAY_MS);
    await new RedisFence(redis, order, { retentionMs: 60_000 }).open(6);
    expect(await redis.pttl(`${order}|opened`)).toBeLessThanOrEqual(60_000);
    for (const retentionMs of [999, Infinity, 1_000.5]) {
      expect(() => new RedisFence(redis, order, { retentionMs })).toThrow('retentionMs');
    }
  });

  it('is named as resources are', () => {
    for (const name of ['', 'a|b', 'a}b', '{a}{b}']) expect(() => new RedisFence(redis, name)).toThrow('esource');
  });
});

describe('a write behind the fence', () => {
  beforeEach(() => fence.open(5));

  it('runs several commands on several keys in one step, and answers the reply of each', async () => {
    const lines = `${order}:lines`;
    const replies = await fence.write(5, [
      ['rpush', lines, 'tea', 'milk', 'sugar'],
      ['set', order, 'open', 'PX', 60_000, 'NX'],
      ['set', order, 'again', 'NX'],
      ['lrem', lines, 0, 'milk'],
      ['del', order],
      ['lpop', lines],
    ]);
    expect(replies).toEqual([3, 'OK', null, 1, 1, 'tea']);
    expect(await redis.lrange(lines, 0, -1)).toEqual(['sugar']);
    expect(await redis.exists(order)).toBe(0);
  });

  it('may be of no command at all: then it only checks', async () => {
    expect(await fence.write(5, [])).toEqual([]);
    await expect(fence.write(4, [])).rejects.toThrow(StaleFenceError);
  });

  it('leaves one script in Redis, however many arguments its commands have', async () => {
    const texts = new Set<unknown>();
    const client = {
      eval: (lua: string, count: number, ...rest: string[]) => {
        texts.add(lua);
        return redis.eval(lua, count, ...rest);
      },
      evalsha: (sha: string, count: number, ...rest: string[]) => redis.evalsha(sha, count, ...rest),
    };
    const watched = new RedisFence(client, order);
    for (const size of [1, 2, 300]) {
      await watched.write(5, [['rpush', `${order}:lines`, ...Array.from({ length: size }, (_, n) => n)]]);
    }
    expect(texts.size).toBe(1);
    expect(await redis.llen(`${order}:lines`)).toBe(303);
  });

  it('refuses commands whose keys it would not know, by their names', async () => {
    const wrong = [
      ['rename', order, 'x'],
      ['set) os.exit(', order],
      ['del', order, 'other'],
      ['HSET', order, 'a', '1'],
    ];
    for (const command of wrong) {
      const refused = fence.write(5, [command as unknown as FencedCommand]);
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    }
  });

  it('may be a script, to which its own keys and arguments are all there are', async () => {
    const script = {
      lua: `redis.call('SET', KEYS[1], ARGV[1] + ARGV[2])
            return { redis.call('GET', KEYS[1]), #KEYS, #ARGV }`,
      keys: [order],
      args: [40, 2],
    };
    expect(await fence.write(5, script)).toEqual(['42', 1, 2]);
    expect(await fence.write(5, { lua: 'return #KEYS + #ARGV', keys: [] })).toBe(0);
    await fence.open(6);
    await redis.del(order);
    await expect(fence.write(5, script)).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
  });

  it("leaves the script's and the server's own errors as they are", async () => {
    const failing = { lua: `return redis.error_reply('SOLDOUT no tea left')`, keys: [] };
    await expect(fence.write(5, failing)).rejects.toThrow('SOLDOUT no tea left');
    await redis.rpush(order, 'a list');
    await expect(fence.write(5, [['hset', order, 'a', '1']])).rejects.toThrow('WRONGTYPE');
  });

  it('works on after SCRIPT FLUSH, and where EVALSHA is refused', async () => {
    await fence.write(5, set('one'));
    await redis.script('FLUSH');
    await fence.open(5);
    await fence.write(5, set('two'));
    const user = uniquePrefix();
    await redis.acl('SETUSER', user, 'on', 'nopass', '~*', '+@all', '-evalsha');
    const limited = new Redis(testRedisUrl(), { username: user, password: 'any' });
    try {
      const other = new RedisFence(limited, order);
      for (const value of ['three', 'four']) {
        await other.open(5);
        await other.write(5, set(value));
        expect(await redis.get(order)).toBe(value);
      }
    } finally {
      limited.disconnect();
      await redis.acl('DELUSER', user);
    }
  });

  it("stands under the client's own keyPrefix, as its data does", async () => {
    const prefix = uniquePrefix();
    const client = new Redis(testRedisUrl(), { keyPrefix: prefix });
    try {
      const prefixed = new RedisFence(client, 'order:{1}');
      await prefixed.open(5);
      await prefixed.write(5, [['set', 'order:{1}', 'here']]);
      expect(await redis.mget(`${prefix}order:{1}`, `${prefix}order:{1}|opened`)).toEqual(['here', '5']);
      await client.del('order:{1}', 'order:{1}|opened');
    } finally {
      client.disconnect();
    }
  });
});

describe('in a cluster', () => {
  let server: RedisServer;
  let node: Redis;

  beforeAll(async () => {
    // The port of the cluster's bus is this one and 10,000.
    let port = await freePort();
    while (port > 55_535) port = await freePort();
    server = await startRedis({ local: true, port, args: ['--cluster-enabled', 'yes'] });
    node = new Redis(server.url);
    await node.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await eventually('the cluster works', async () => (await node.cluster('INFO')).includes('state:ok'));
  });
  afterAll(async () => {
    node.disconnect();
    await server.stop();
  });

  it('has its slot from the name: that of one key, or of all with its braces', async () => {
    for (const [name, key] of [
      ['order:300', 'order:300'],
      ['order:{300}', 'order:{300}:lines'],
    ] as const) {
      const clustered = new RedisFence(node, name);
      await clustered.open(5);
      await clustered.write(5, [['set', key, 'here']]);
      expect(await node.get(key)).toBe('here');
      await expect(clustered.write(5, [['set', 'elsewhere', '']])).rejects.toThrow('CROSSSLOT');
    }
  });
});

describe('a holder that is stopped past its lease and wakes up late', () => {
  const running: LockProcess[] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((process) => process.kill()));
  });

  async function start(options: RedisLockModuleOptions): Promise<LockProcess> {
    const process = await LockProcess.start({ redis: testRedisUrl(), waitMs: 10_000, ...options });
    running.push(process);
    return process;
  }

  /** The first one reads and is stopped; the second one adds its line; the first one wakes up and adds its own. */
  async function twoHolders(write: 'write' | 'writeFenced') {
    const prefix = uniquePrefix();
    const [first, second] = await Promise.all([start({ prefix, ttlMs: 300 }), start({ prefix })]);
    const add = async (holder: LockProcess, line: string) => {
      const lines = await holder.call('read', order);
      return () => holder.call(write, order, lines === null ? line : `${lines} ${line}`);
    };
    const firstToken = await first.call('acquire', order);
    if (write === 'writeFenced') await first.call('openFence', order);
    const lateWrite = await add(first, 'first');
    first.pause();
    const secondToken = await second.call('acquire', order);
    expect(secondToken).toBeGreaterThan(firstToken);
    if (write === 'writeFenced') await second.call('openFence', order);
    await (
      await add(second, 'second')
    )();
    // It lies there when the process wakes up, as the next line of a program does.
    const late = lateWrite().then(
      () => 'written',
      (error: unknown) => String(error),
    );
    first.resume();
    return { late: await late, lines: await redis.get(order) };
  }

  it('is refused, and nothing is lost', async () => {
    const { late, lines } = await twoHolders('writeFenced');
    expect(late).toContain('StaleFenceError');
    expect(lines).toBe('second');
  });

  it('loses the update of the other without the fence: the control', async () => {
    expect(await twoHolders('write')).toEqual({ late: 'written', lines: 'first' });
  });
});
