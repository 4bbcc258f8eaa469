import { asked } from '../../support/asked.js';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { SystemClock } from '../../../lib/clock/clock.js';
import type { RedisClient } from '../../../lib/redis/redis-client.js';
import { token } from '../../../lib/stores/token/token.js';
import { eventually } from '../../support/async.js';
import { ioredis, type OpenClient } from '../../support/client-libraries.js';
import { asPort } from '../../support/client-port.js';
import { refuseOtherKeys } from '../../support/literal-keys.js';
import { RedisProxy } from '../../support/proxy.js';
import { RedisCluster, type RedisServer, startRedis } from '../../support/redis/index.js';
import { Instance } from './instance.js';

jest.setTimeout(30_000);

let tests = 0;
const opened: Instance[] = [];

function start(connection: OpenClient, key = `{tag${(tests += 1)}}:1`): Instance {
  const instance = new Instance(connection, key, 2_000);
  opened.push(instance);
  return instance;
}

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

describe('a cluster', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: false });
  });
  afterEach(() => cluster.flush());
  afterAll(() => cluster.close());

  it('that moves a slot takes locks and queues along, and waiters keep their places', async () => {
    const here = start(await ioredis.connectCluster(cluster.nodes));
    await here.listens();
    const granted = await here.tokenOf('ann');
    await here.all('bob', 'cid');
    await cluster.migrate(here.key, await cluster.otherThan(here.key));
    await eventually('the new node sees the subscriber', async () => {
      const reply = await here.acquire('cid');
      return reply.status === 'held' && reply.queued && reply.ahead === 1;
    });
    here.wakes.length = 0;
    expect([await here.tokenOf('ann'), await here.release('ann')]).toEqual([granted, true]);
    await here.woken('bob');
    expect(await here.statuses('bob')).toEqual(['granted']);
  });

  it('keeps leases of writers and readers in the middle of a migration', async () => {
    const here = start(await ioredis.connectCluster(cluster.nodes));
    here.setMode('shared', 'rob');
    const key = `${here.key}:r`;
    await here.acquire('ann');
    await here.acquire('rob', { key });
    const extended = () =>
      here.store.extend([
        { ...here.owned('ann'), leaseMs: 70_000 },
        { ...here.owned('rob', key), leaseMs: 70_000 },
      ]);
    const { moveKeys, finish } = await cluster.migration(here.key, await cluster.otherThan(here.key));
    expect(await extended()).toEqual(['renewed', 'renewed']);
    await moveKeys();
    expect(await extended()).toEqual(['renewed', 'renewed']);
    await finish();
    expect(await extended()).toEqual(['renewed', 'renewed']);
    expect([await here.release('ann'), await here.release('rob', 0, key)]).toEqual([true, true]);
  });

  it('gets one call for each hash tag, and the locks of a tick in one call', async () => {
    const here = start(await ioredis.connectCluster(cluster.nodes));
    const keys = Array.from({ length: 60 }, (_, i) => `{fam${i % 20}}:${i}`);
    const ask = () => Promise.all(keys.map((key, i) => here.acquire(`c${i}`, { key })));
    const free = () => Promise.all(keys.map((key, i) => here.release(`c${i}`, 0, key)));
    await ask();
    await free();
    for (const { admin } of cluster.masters) await admin.config('RESETSTAT');
    expect((await ask()).every(({ status }) => status === 'granted')).toBe(true);
    const infos = await Promise.all(cluster.masters.map(({ admin }) => admin.info('commandstats')));
    const calls = infos.map((info) => Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0));
    expect(calls.reduce((sum, one) => sum + one, 0)).toBe(20);
    expect(await free()).toEqual(keys.map(() => true));
  });

  it('puts its keyPrefix into the slot', async () => {
    const client = new Cluster([...cluster.nodes], { keyPrefix: 'app:' });
    const connection = { client: client as object as RedisClient, quit: () => client.quit() };
    const here = start({ ...connection, disconnect: () => client.disconnect() }, 'plain');
    await here.acquire('ann');
    // A key without braces is its own hash tag, and has a channel of its own.
    await eventually('bob joins the queue', async () => {
      const reply = await here.acquire('bob');
      return reply.status === 'held' && reply.queued;
    });
    await here.release('ann');
    await here.woken('bob');
    expect(new Set(here.wokenKeys)).toEqual(new Set(['plain']));
    expect((await here.store.inspect('plain'))?.holder).toBe(here.id);
    await here.release('bob');
  });

  it('whose node is used as a single server gets keys of one slot in each call', async () => {
    const [{ server }] = cluster.masters;
    const keys: string[] = [];
    for (let i = 0; keys.length < 6; i += 1) {
      const key = `{node${i}}:1`;
      if ((await cluster.ownerOf(key)).server === server) keys.push(key, `${key}:2`);
    }
    const here = start(await ioredis.connect(server.url));
    for (let round = 0; round < 2; round += 1) {
      const replies = await Promise.all(keys.map((key, i) => here.acquire(`c${i}`, { key })));
      expect(replies.map(({ status }) => status)).toEqual(keys.map(() => 'granted'));
      const held = keys.map((key, i) => ({ ...here.owned(`c${i}`, key), leaseMs: 60_000 }));
      expect(await here.store.extend(held)).toEqual(keys.map(() => 'renewed'));
      expect(await Promise.all(keys.map((key, i) => here.release(`c${i}`, 0, key)))).toEqual(keys.map(() => true));
    }
  });
});

describe('a server', () => {
  let server: RedisServer;

  beforeAll(async () => {
    // Without a delay before a replica's first synchronisation, which is 5 s otherwise.
    server = await startRedis({ local: true, args: ['--repl-diskless-sync-delay', '0'] });
  });
  afterAll(() => server.stop());

  it('behind a proxy that wants literal keys gets the requests one by one', async () => {
    const proxy = await RedisProxy.start(server.url);
    proxy.filter = refuseOtherKeys;
    const here = start(await ioredis.connect(proxy.url));
    const keys = Array.from({ length: 5 }, (_, i) => `${here.key}:${i}`);
    const replies = await Promise.all(keys.map((key, i) => here.acquire(`c${i}`, { key })));
    expect(replies.map(({ status }) => status)).toEqual(keys.map(() => 'granted'));
    expect(await Promise.all(keys.map((key, i) => here.release(`c${i}`, 0, key)))).toEqual(keys.map(() => true));
    for (const one of opened.splice(0)) await one.close();
    await proxy.close();
  });

  it('with replicas grants and renews only what they have', async () => {
    const replica = await startRedis({ local: true, args: ['--replicaof', '127.0.0.1', String(server.port)] });
    const client = new Redis(server.url);
    const admin = new Redis(replica.url);
    const port = asPort(client);
    const store = token()({
      clock: new SystemClock(),
      requestTimeoutMs: 2_000,
      prefix: 'lock_',
      redis: () => port,
      open: () => port,
      replicas: { min: 1, timeoutMs: 500 },
    });
    try {
      // A linked replica may still load its data.
      await eventually('it acknowledges', async () => {
        await client.set('written', '1');
        return (await client.wait(1, 50)) === 1;
      });
      const owned = { key: '{replicas}:1', owner: 'i:1', mode: 'exclusive', leaseMs: 60_000 } as const;
      const shared = { key: '{replicas}:2', owner: 'i:2', mode: 'shared', leaseMs: 60_000 } as const;
      const ask = { wait: false, handoffMs: 1_000 };
      expect((await asked(store).acquire({ ...owned, ...ask })).status).toBe('granted');
      expect((await asked(store).acquire({ ...shared, ...ask })).status).toBe('granted');
      expect(await admin.exists(owned.key, shared.key, `${shared.key}|holders`)).toBe(3);
      expect(await store.extend([owned, shared])).toEqual(['renewed', 'renewed']);
      await replica.kill();
      expect(await store.extend([owned])).toEqual(['unknown']);
      await expect(asked(store).acquire({ ...owned, ...ask })).rejects.toThrow('Too few replicas know of the lock');
      expect(await asked(store).release({ ...owned, closedForMs: 0, handoffMs: 1_000 })).toBe(true);
    } finally {
      await store.close();
      client.disconnect();
      admin.disconnect();
      await replica.stop();
    }
  });
});
