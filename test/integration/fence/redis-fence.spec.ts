import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockError } from 'nestjs-redis-lock';
import { RedisFence, StaleFenceError } from 'nestjs-redis-lock/fence';
import { RedisProxy } from '../../support/proxy.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';
import { RedisCluster } from '../../support/redis/index.js';
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
afterEach(() => redis.del(order, `${order}|opened`));
afterAll(() => redis.quit());

const SET = `return redis.call('SET', KEYS[1], ARGV[1])`;
const set = (value: string, key = order) => ({ lua: SET, keys: [key], args: [value] });

describe('a fence in Redis', () => {
  it('refuses a write after a later holder has opened it', async () => {
    await fence.open(5);
    await fence.open(6);
    await expect(fence.write(5, set('late'))).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
    await fence.write(6, set('new'));
    expect(await redis.get(order)).toBe('new');
  });

  it('refuses a write that the client repeats after a later holder, although the first one took effect', async () => {
    const proxy = await RedisProxy.start(testRedisUrl());
    const client = new Redis(proxy.url, { retryStrategy: () => 1 });
    client.on('error', () => undefined);
    try {
      const early = new RedisFence(client, order);
      await early.open(5);
      proxy.drop('replies');
      const written = early.write(5, set('once')).catch((error: unknown) => error);
      await eventually('it is written', async () => (await redis.get(order)) === 'once');
      await fence.open(6);
      proxy.reset();
      proxy.resume('replies');
      expect(await written).toBeInstanceOf(StaleFenceError);
      expect(await redis.get(order)).toBe('once');
    } finally {
      client.disconnect();
      await proxy.close();
    }
  });

  it('loses no update if a holder writes after its lock has passed to another', async () => {
    const instances = new RedisLocks();
    const [first, second] = [instances.start({ redis: testRedisUrl() }), instances.start({ redis: testRedisUrl() })];
    const begin = async (locks: typeof first) => {
      const { fencingToken } = await locks.acquire('order:300');
      await fence.open(fencingToken);
      const lines = (await redis.get(order)) ?? '';
      return (line: string) => fence.write(fencingToken, set(`${lines}${line} `));
    };
    try {
      const addLate = await begin(first);
      await second.forceRelease('order:300');
      const add = await begin(second);
      await add('milk');
      await expect(addLate('tea')).rejects.toThrow(StaleFenceError);
      expect(await redis.get(order)).toBe('milk ');
    } finally {
      await instances.close();
    }
  });

  it('is not opened by an earlier holder, and stays unchanged', async () => {
    await fence.open(6);
    const refusal = (await fence.open(5).catch((error: unknown) => error)) as StaleFenceError;
    expect(refusal).toBeInstanceOf(LockError);
    expect(refusal).toMatchObject({ code: 'LOCK_STALE', name: 'StaleFenceError', resource: order });
    await fence.write(6, set('new'));
  });

  it('refuses a write if it was not opened, or opened by another, or is lost', async () => {
    await expect(fence.write(5, set('unopened'))).rejects.toThrow(StaleFenceError);
    await fence.open(5);
    await expect(fence.write(6, set('unopened'))).rejects.toThrow(StaleFenceError);
    await redis.del(`${order}|opened`);
    await expect(fence.write(5, set('forgotten'))).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
  });

  it('refuses the write of a holder whose open was lost in a failover', async () => {
    await fence.open(5);
    const before = await redis.get(`${order}|opened`);
    await fence.open(6);
    await redis.set(`${order}|opened`, before as string);
    await fence.write(5, set('five'));
    await expect(fence.write(6, set('six, from before five'))).rejects.toThrow(StaleFenceError);
    expect(await redis.get(order)).toBe('five');
  });

  it('distinguishes tokens up to 2^53', async () => {
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

  it.each([Number.NaN, 1.5, -1, 2 ** 53, '5', undefined])('throws if the token is %p', async (token) => {
    await expect(fence.open(token as number)).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    await expect(fence.write(token as number, set('x'))).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
  });

  it('is kept for a day after open, or for retentionMs', async () => {
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

  it.each<[what: string, put: (key: string) => Promise<unknown>, found: string]>([
    ['a text', (key) => redis.set(key, 'garbage'), 'a string that is not a token'],
    ['a number with a sign', (key) => redis.set(key, '-5'), 'a string that is not a token'],
    ['another type', (key) => redis.rpush(key, 'a', 'b'), 'a value of another type'],
  ])('throws if its key holds %s, and leaves the key as it is', async (_what, put, found) => {
    const key = `${order}|opened`;
    await put(key);
    const before = await redis.dump(key);
    const error = {
      code: 'LOCK_CONFIG',
      resource: order,
      message: expect.stringContaining(`holds ${found}; expected`),
    };
    await expect(fence.open(5)).rejects.toMatchObject(error);
    await expect(fence.write(5, set('x'))).rejects.toMatchObject(error);
    expect(await redis.exists(order)).toBe(0);
    expect(await redis.dump(key)).toEqual(before);
  });

  it.each<[what: string, options: unknown, message: RegExp]>([
    ['null', null, /^RedisFence: the options are null; expected a plain object/],
    ['an unknown option', { toString: 1 }, /^RedisFence: unknown option toString; expected retentionMs/],
    [
      'a text as time',
      { retentionMs: '1000' },
      /^RedisFence: retentionMs is "1000"; expected a whole number from 1000/,
    ],
  ])('throws for %s as options', (_what, options, message) => {
    expect(() => new RedisFence(redis, order, options as object)).toThrow(message);
  });

  it('throws if its name is not a valid resource', () => {
    for (const name of ['', 'a|b', 'a}b', '{a}{b}']) expect(() => new RedisFence(redis, name)).toThrow('esource');
  });
});

describe('a write behind the fence', () => {
  beforeEach(() => fence.open(5));

  const numbers = (size: number): number[] => Array.from({ length: size }, (_, n) => n);

  it('runs a script that sees only its own keys and arguments', async () => {
    const script = {
      lua: `redis.call('SET', KEYS[1], ARGV[1] + ARGV[2])
            return { redis.call('GET', KEYS[1]), #KEYS, #ARGV }`,
      keys: [order],
      args: [40, 2],
    };
    expect(await fence.write(5, script)).toEqual(['42', 1, 2]);
    expect(await fence.write(5, { lua: 'return #KEYS + #ARGV', keys: [] })).toBe(0);
    expect(await fence.write(5, { lua: 'return #ARGV', keys: [], args: numbers(50_000) })).toBe(50_000);
    await fence.open(6);
    await redis.del(order);
    await expect(fence.write(5, script)).rejects.toThrow(StaleFenceError);
    expect(await redis.exists(order)).toBe(0);
  });

  it.each<[what: string, script: unknown, message: RegExp]>([
    ['null', null, /^The script behind a fence: the options are null; expected a plain object/],
    ['a list', [['set', 'x', '1']], /the options are an array; expected a plain object/],
    ['a number as text', { lua: 5, keys: [] }, /lua is 5; expected the text of a script/],
    ['no text', { keys: [] }, /has no lua; expected { lua, keys, args }/],
    ['no keys', { lua: 'return 1' }, /has no keys; expected { lua, keys, args }/],
    ['keys that are a text', { lua: 'return 1', keys: 'x' }, /keys is "x"; expected a list of strings/],
    ['a number as key', { lua: 'return 1', keys: [5] }, /keys is an array; expected a list of strings/],
    ['a hole', { lua: 'return 1', keys: [], args: Array(1) }, /args is an array; expected a list of strings and/],
    ['an object as argument', { lua: 'return 1', keys: [], args: [{}] }, /args is an array; expected a list of/],
    ['50,001 arguments', { lua: 'return 1', keys: [], args: numbers(50_001) }, /a list of .*, at most 50000/],
    ['an unknown part', { lua: 'return 1', keys: [], argv: [] }, /unknown option argv; expected lua, keys, args/],
  ])('throws for %s', async (_what, script, message) => {
    const refused = fence.write(5, script as never);
    await expect(refused).rejects.toMatchObject({ code: 'LOCK_CONFIG', message: expect.stringMatching(message) });
  });

  it('rejects with the errors of the script and of the server', async () => {
    const failing = { lua: `return redis.error_reply('SOLDOUT no tea left')`, keys: [] };
    await expect(fence.write(5, failing)).rejects.toThrow('SOLDOUT no tea left');
    await redis.rpush(order, 'a list');
    const wrong = { lua: `return redis.call('HSET', KEYS[1], 'a', '1')`, keys: [order] };
    await expect(fence.write(5, wrong)).rejects.toThrow('WRONGTYPE');
  });

  it('works after SCRIPT FLUSH, and if EVALSHA is refused', async () => {
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

  it('applies the keyPrefix of the client to all keys', async () => {
    const prefix = uniquePrefix();
    const client = new Redis(testRedisUrl(), { keyPrefix: prefix });
    try {
      const prefixed = new RedisFence(client, 'order:{1}');
      await prefixed.open(5);
      await prefixed.write(5, set('here', 'order:{1}'));
      expect(await redis.mget(`${prefix}order:{1}`, `${prefix}order:{1}|opened`)).toEqual(['here', '5']);
      await client.del('order:{1}', 'order:{1}|opened');
    } finally {
      client.disconnect();
    }
  });
});

it('a fence in a cluster is in the slot of its name, which is one key or a hash tag', async () => {
  const cluster = await RedisCluster.start({ environments: [{}], replicas: false });
  try {
    const [{ admin: node }] = cluster.masters;
    for (const [name, key] of [
      ['order:300', 'order:300'],
      ['order:{300}', 'order:{300}:lines'],
    ] as const) {
      const clustered = new RedisFence(node, name);
      await clustered.open(5);
      await clustered.write(5, set('here', key));
      expect(await node.get(key)).toBe('here');
      await expect(clustered.write(5, set('', 'elsewhere'))).rejects.toThrow('CROSSSLOT');
    }
  } finally {
    await cluster.close();
  }
});
