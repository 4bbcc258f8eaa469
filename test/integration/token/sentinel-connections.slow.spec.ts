import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { longestTimerAtEndOf } from '../../support/ends-by-itself.js';
import { RedisProxy } from '../../support/proxy.js';
import { ReplicaSet, type SentinelAddress } from '../../support/redis/replica-set.js';
import { eventually, RedisLocks } from '../../support/redis-locks.js';

let servers: ReplicaSet;
let running: RedisLocks;
let proxies: RedisProxy[];

beforeEach(async () => {
  servers = await ReplicaSet.start({ replicas: 1, sentinels: 1 });
  running = new RedisLocks();
  proxies = [];
});
afterEach(async () => {
  await running.close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await servers.close();
});

async function wayTo(url: string): Promise<RedisProxy> {
  const proxy = await RedisProxy.start(url);
  proxies.push(proxy);
  return proxy;
}

describe('a closed module with Sentinel', () => {
  const script = (address: SentinelAddress): string => `
    const options = { redis: ${JSON.stringify(address)}, replicas: { min: 1 } };
    const runtimes = [1, 2].map(() => LockRuntime.start(options, undefined, { logger: silent }));
    for (const runtime of runtimes) runtime.connect();
    const [one, other] = runtimes.map(({ service }) => service);
    const first = await one.acquire('goods:300');
    const waiting = other.acquire('goods:300');
    const { subscriptions } = other.engine.store.channels;
    while (subscriptions.all[0]?.state !== 'subscribed') await new Promise((resolve) => setTimeout(resolve, 5));
    await first.release();
    await (await waiting).release();
    await Promise.all(runtimes.map((runtime) => runtime.close()));
  `;

  // That is how long ioredis waits for the end of its connections to Sentinels.
  it('lets the process end within 2 s', async () => {
    expect(await longestTimerAtEndOf(script(servers.address))).toBeLessThanOrEqual(2_000);
  });
});

describe('a connection by Sentinel', () => {
  it('does not wait for a Sentinel that hangs', async () => {
    // They pose as two Sentinels. ioredis queries the first one first.
    const [{ url }] = servers.sentinels;
    const ways = [await wayTo(url), await wayTo(url)];
    ways[0].hold('replies');
    const sentinels = ways.map(({ port }) => ({ host: '127.0.0.1', port }));
    await running.start({ redis: { ...servers.address, sentinels } }).using('goods:300', () => undefined);
    expect(ways[0].connectionCount).toBe(1);
  });

  it('leaves a server that accepts connections but never replies', async () => {
    const [master] = servers.servers;
    const mute = await wayTo(master.url);
    mute.hold('replies');
    const natMap = { [`127.0.0.1:${master.port}`]: { host: '127.0.0.1', port: mute.port } };
    const locks = running.start({ redis: { ...servers.address, natMap }, waitMs: 60_000 });
    await eventually('it is connected', () => mute.connectionCount === 1);
    delete natMap[`127.0.0.1:${master.port}`];
    await locks.using('goods:300', () => undefined);
  });
});
