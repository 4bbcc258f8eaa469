import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type RedisLockModuleOptions, token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { hashTag } from '../../../lib/keys/resource-key.js';
import { slotOfTag } from '../../../lib/redis/slots.js';
import { embeddedScripts } from '../../support/embedded-scripts.js';
import { refuseOtherKeys } from '../../support/literal-keys.js';
import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet } from '../../support/redis/replica-set.js';
import { RedisLocks, renewed } from '../../support/redis-locks.js';

let servers: ReplicaSet;
let running: RedisLocks;
let proxy: RedisProxy;

beforeAll(async () => {
  servers = await ReplicaSet.start({ replicas: 1, sentinels: 0 });
});
beforeEach(async () => {
  running = new RedisLocks();
  proxy = await RedisProxy.start(servers.servers[0].url);
});
afterEach(async () => {
  await running.close();
  await proxy.close();
});
afterAll(() => servers.close());

/** Acquires, waits, hands off, renews, inspects and releases. */
async function useAll(options: RedisLockModuleOptions): Promise<void> {
  const [one, other] = [1, 2].map(() => running.start({ redis: proxy.url, ...options }));
  for (const [holder, waiter] of [
    [one, other],
    [other, one],
  ]) {
    const lock = await holder.acquire('goods:300');
    const granted = waiter.acquire('goods:300');
    await renewed(lock);
    expect(await waiter.inspect('goods:300')).toMatchObject({ isOwn: false });
    expect(await lock.release()).toBe(true);
    expect(await (await granted).release()).toBe(true);
  }
  expect(await one.inspect('goods:300')).toBeNull();
  await one.using(['goods:1', 'goods:2'], async (both) => {
    expect(both.resources).toEqual(['goods:1', 'goods:2']);
    expect(await other.tryAcquire(['goods:3', 'goods:2'])).toBeNull();
  });
}

const STORES: [name: string, options: RedisLockModuleOptions][] = [
  ['token()', { store: token() }],
  ['token() that waits for replicas', { store: token(), replicas: { min: 1, timeoutMs: 500 } }],
  ['redisson()', { store: redisson() }],
  ['timestamp()', { store: timestamp({ unit: 'ms' }) }],
];

describe('a proxy that requires keys, and literal KEYS[n]', () => {
  it('accepts every script but two, which serve several locks of a tick', () => {
    const refused = [...embeddedScripts].filter(([, lua]) => refuseOtherKeys(['EVAL', lua]) !== undefined);
    expect(refused.map(([name]) => name)).toEqual(['tokenAcquireMany', 'tokenReleaseMany']);
  });

  it.each(STORES)('serves every operation of %s', async (_, options) => {
    let scripts = 0;
    const refused: string[] = [];
    proxy.filter = (words) => {
      if (/^eval$/i.test(words[0])) scripts += 1;
      const error = refuseOtherKeys(words);
      if (error !== undefined) refused.push(error);
      return error;
    };
    await useAll(options);
    // The requests of that tick are then sent one by one.
    expect(refused.filter((error) => !error.includes('unpack(KEYS, 2)'))).toEqual([]);
    expect(scripts).toBeGreaterThan(0);
    expect(running.warnings).toEqual([]);
  });
});

describe('a proxy without EVALSHA and SCRIPT', () => {
  it.each(STORES)('gets whole scripts from %s', async (_, options) => {
    let refusals = 0;
    proxy.filter = (words) => {
      if (!/^(?:evalsha|script)$/i.test(words[0])) return undefined;
      refusals += 1;
      return `ERR unknown command '${words[0]}'`;
    };
    await useAll(options);
    expect(refusals).toBeGreaterThan(0);
    expect(running.warnings).toEqual([]);
  });
});

describe('a server that refuses the keys of several slots in one script', () => {
  /** Refuses scripts whose keys are in different slots. Returns how many it has refused. */
  function refuseSeveralSlots(): () => number {
    let refusals = 0;
    proxy.filter = ([command, , count, ...words]) => {
      if (!/^eval(?:sha)?$/i.test(command)) return undefined;
      const slots = new Set(words.slice(0, Number(count)).map((key) => slotOfTag(hashTag(key))));
      if (slots.size < 2) return undefined;
      refusals += 1;
      return "CROSSSLOT Keys in request don't hash to the same slot";
    };
    return () => refusals;
  }

  it('serves every operation', async () => {
    const refused = refuseSeveralSlots();
    await useAll({ store: token() });
    expect(refused()).toBeGreaterThan(0);
  });
});
