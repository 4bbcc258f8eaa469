import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { LockUnavailableError } from '../../../lib/common/errors.js';
import { UnansweredError } from '../../../lib/contract/store.js';
import { eventually } from '../../support/async.js';
import { ioredis, NODE_REDIS, type OpenClient } from '../../support/client-libraries.js';
import { RedisCluster, type RedisServer, startRedis } from '../../support/redis/index.js';
import { Instance, LONG_MS, pass } from './instance.js';

jest.setTimeout(30_000);

/** In milliseconds. Several requests have to arrive within it. */
const SHORT_MS = 150;

/** Where locks are kept. */
interface Deployment {
  connect(): Promise<OpenClient>;
  readonly admin: Redis | Cluster;
  stop(): Promise<void>;
}

async function server(library = ioredis): Promise<Deployment> {
  const { url, stop } = await startRedis({ local: true }).then((one) => ({ url: one.url, stop: () => one.stop() }));
  const admin = new Redis(url);
  return { connect: () => library.connect(url), admin, stop: () => Promise.resolve(admin.disconnect()).then(stop) };
}

async function cluster(library = ioredis): Promise<Deployment> {
  const started = await RedisCluster.start({ replicas: false });
  const admin = new Cluster([...started.nodes]);
  const stop = (): Promise<void> => Promise.resolve(admin.disconnect()).then(() => started.close());
  return { connect: () => library.connectCluster(started.nodes), admin, stop };
}

const DEPLOYMENTS: Readonly<Record<string, () => Promise<Deployment>>> = {
  'one server': () => server(),
  'one server, node-redis': () => server(NODE_REDIS[0]),
  'a cluster': () => cluster(),
  'a cluster, node-redis': () => cluster(NODE_REDIS[0]),
};

let tests = 0;

describe.each(Object.keys(DEPLOYMENTS))('on %s', (name) => {
  let deployment: Deployment;
  let here: Instance;
  let opened: Instance[] = [];

  const start = async (): Promise<Instance> => {
    const instance = new Instance(await deployment.connect(), here?.key ?? `{family${(tests += 1)}}:300`);
    opened.push(instance);
    return instance;
  };
  /** Puts an entry of an instance without a subscriber into the queue. */
  const addDead = async (): Promise<void> => {
    const queue = `${here.key}|queue`;
    const [, last = '0'] = await deployment.admin.zrange(queue, '-1', '-1', 'WITHSCORES');
    await deployment.admin.zadd(queue, Number(last) + 1, 'v2-gone:1');
    await deployment.admin.pexpire(queue, 60_000);
  };
  const valueOf = (): Promise<string | null> => deployment.admin.get(here.key);

  beforeAll(async () => {
    deployment = await DEPLOYMENTS[name]();
  });
  beforeEach(async () => {
    here = undefined as unknown as Instance;
    here = await start();
  });
  afterEach(async () => {
    for (const one of [here.key, `${here.key}|queue`, `${here.key}|holders`]) {
      const life = await deployment.admin.pttl(one);
      await deployment.admin.del(one);
      if (life === -1) throw new Error(`${one} has no TTL`);
    }
    for (const one of opened) await one.close();
    opened = [];
  });
  afterAll(() => deployment.stop());

  it('a free key is granted to one owner, and the refusal has the remaining lease and the holder', async () => {
    const granted = await here.acquire('ann');
    expect(granted).toEqual({ status: 'granted', token: expect.any(Number), tokens: 17 });
    const reply = await here.acquire('bob', { wait: false });
    expect(reply).toMatchObject({ status: 'held', queued: false, holder: { instanceId: here.id } });
    expect(reply).toMatchObject({ ahead: undefined, isForeign: undefined, isFree: undefined });
    expect((reply as { remainingMs: number }).remainingMs).toBeGreaterThan(LONG_MS - 10_000);
    const asked = Array.from({ length: 20 }, (_, i) =>
      here.acquire(`caller${i}`, { key: `${here.key}:20`, wait: false }),
    );
    const all = await Promise.all(asked);
    expect(all.filter(({ status }) => status === 'granted')).toHaveLength(1);
  });

  it('a repeated request gets the same token and its full lease, which it never shortens', async () => {
    const token = await here.tokenOf('ann');
    await here.acquire('ann', { leaseMs: SHORT_MS });
    await pass(SHORT_MS + 20);
    expect(await here.acquire('ann')).toEqual({ status: 'granted', token, tokens: 17 });
  });

  it('a foreign value is respected', async () => {
    await deployment.admin.set(here.key, 'f47ac10b', 'PX', 400);
    const refusal = await here.acquire('ann', { wait: false });
    expect(refusal).toMatchObject({ status: 'held', isForeign: true, holder: undefined });
    expect([await here.release('ann'), await here.extend('ann')]).toEqual([false, 'lost']);
    expect(await here.store.inspect(here.key)).toMatchObject({ holder: 'f47ac10b', token: undefined });
    // So is that of a release before this one.
    await deployment.admin.set(here.key, 'v1-api:1/secret 1795000000000000', 'PX', LONG_MS);
    expect(await here.acquire('ann', { wait: false })).toMatchObject({ status: 'held', isForeign: true });
    await deployment.admin.persist(here.key);
    expect(await here.acquire('ann', { wait: false })).toMatchObject({ remainingMs: Infinity });
    expect(await here.force()).toBe(true);
    expect(await here.statuses('bob')).toEqual(['granted']);
  });

  it('a release frees the key once, and only for its owner', async () => {
    expect(await here.release('ann')).toBe(false);
    await here.acquire('ann', { wait: false });
    expect([await here.release('bob'), await here.release('ann')]).toEqual([false, true]);
    await here.acquire('bob', { wait: false });
    expect([await here.release('ann'), ...(await here.statuses('cid'))]).toEqual([false, 'held']);
  });

  it('an expired owner neither releases nor extends the lock of the next one', async () => {
    await here.acquire('ann', { leaseMs: SHORT_MS });
    await pass(SHORT_MS + 20);
    await here.acquire('bob');
    expect([await here.extend('ann'), await here.release('ann'), await here.release('bob')]).toEqual([
      'lost',
      false,
      true,
    ]);
  });

  it('an extension sets a new lease and never shortens one, in a batch in order', async () => {
    here.setMode('shared', 'rob');
    const key = `${here.key}:r`;
    await here.acquire('ann', { leaseMs: SHORT_MS });
    await here.acquire('rob', { leaseMs: SHORT_MS, key });
    const of = (who: string, leaseMs = LONG_MS) => ({ ...here.owned(who, who === 'rob' ? key : here.key), leaseMs });
    const replies = await here.store.extend([of('bob'), of('ann'), of('rob'), of('ann', 1)]);
    expect(replies).toEqual(['lost', 'renewed', 'renewed', 'renewed']);
    await pass(SHORT_MS + 20);
    expect(await here.statuses('bob')).toEqual(['held']);
    expect(await here.acquire('bob', { wait: false, key })).toMatchObject({ status: 'held', holder: { count: 1 } });
    expect(await here.store.extend([])).toEqual([]);
    await here.release('rob', 0, key);
  });

  it('a released lock is handed off in arrival order, and the message names owner and key', async () => {
    await here.listens();
    const tokens = [await here.tokenOf('ann')];
    const aheads: unknown[] = [];
    for (const who of ['bob', 'cid', 'dot']) aheads.push(await here.acquire(who));
    expect(aheads).toEqual([0, 1, 2].map((ahead) => expect.objectContaining({ queued: true, ahead })));
    here.wokenKeys.length = 0;
    for (const [released, next] of [
      ['ann', 'bob'],
      ['bob', 'cid'],
      ['cid', 'dot'],
    ]) {
      expect(await here.release(released)).toBe(true);
      await here.woken(next);
      here.wakes.length = 0;
      const state = await here.store.inspect(here.key);
      expect(state?.remainingMs).toBeLessThanOrEqual(30_000);
      tokens.push(await here.tokenOf(next));
      expect(tokens.at(-1)).toBe(state?.token);
      expect((await here.store.inspect(here.key))?.remainingMs).toBeGreaterThan(40_000);
    }
    expect(new Set(here.wokenKeys)).toEqual(new Set([here.key]));
    await here.release('dot');
    for (let i = 1; i < tokens.length; i += 1) expect(tokens[i] - tokens[i - 1]).toBeGreaterThanOrEqual(17);
    expect(await here.store.inspect(here.key)).toBeNull();
  });

  it('the queue is joined only once the script sees the subscriber', async () => {
    await here.acquire('ann');
    expect(await here.acquire('bob')).toMatchObject({ queued: false, ahead: undefined });
    await eventually('it is subscribed', () => here.subscriptions === 1);
    expect(await here.acquire('bob')).toMatchObject({ queued: true, ahead: 0 });
    expect(await here.acquire('cid', { wait: false })).toMatchObject({ queued: false, ahead: undefined });
    await here.release('bob');
    await here.release('ann');
    expect(await here.store.inspect(here.key)).toBeNull();
  });

  it('a subscription that the server has lost is made again', async () => {
    await here.listens();
    await here.all('ann', 'bob');
    const { length } = here.wakes;
    const before = here.subscriptions;
    const nodes = deployment.admin instanceof Cluster ? deployment.admin.nodes('master') : [deployment.admin];
    for (const node of nodes) await node.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually('it is subscribed again', () => here.subscriptions > before);
    expect(await here.acquire('bob')).toMatchObject({ queued: true, ahead: 0 });
    await here.release('ann');
    await eventually('bob is woken', () => here.wakes.length > length);
  });

  it('a repeated request keeps its place, and a released owner leaves', async () => {
    await here.listens();
    await here.all('ann', 'bob', 'cid', 'dot', 'bob');
    expect(await here.release('cid')).toBe(false);
    await here.release('ann');
    await here.release('bob');
    await here.woken('bob', 'dot');
  });

  it('dead entries are skipped, 128 a run', async () => {
    await here.listens();
    await here.acquire('ann');
    await addDead();
    await here.acquire('bob');
    await here.release('ann');
    await here.woken('bob');
    await addDead();
    await here.release('bob');
    expect(await here.store.inspect(here.key)).toBeNull();
    const members = Array.from({ length: 1_000 }, (_, i) => [i + 1, `v2-gone${i}:1`]).flat();
    await deployment.admin.zadd(`${here.key}|queue`, ...members);
    await deployment.admin.pexpire(`${here.key}|queue`, 60_000);
    let requests = 1;
    for (; ; requests += 1) {
      const reply = await here.acquire('cid');
      if (reply.status === 'granted') break;
      expect(reply).toMatchObject({ status: 'held', isFree: true, holder: undefined });
    }
    expect(requests).toBe(Math.ceil(1_000 / 128));
  });

  it('entries of another version, whose instances listen elsewhere, are removed', async () => {
    await here.listens();
    await deployment.admin.zadd(`${here.key}|queue`, 1, 'v1-old:2/secret');
    expect(await here.statuses('ann')).toEqual(['granted']);
  });

  it('after an expired lease the first entry precedes new requests', async () => {
    await here.listens();
    await here.acquire('ann', { leaseMs: SHORT_MS });
    await here.all('bob', 'cid');
    await pass(SHORT_MS + 20);
    expect(await here.store.inspect(here.key)).toEqual({
      waiting: [
        { waiter: here.id, mode: 'exclusive' },
        { waiter: here.id, mode: 'exclusive' },
      ],
    });
    expect(await here.statuses('dot')).toEqual(['held']);
    await here.woken('bob');
    await here.release('bob');
    expect(await here.statuses('cid')).toEqual(['granted']);
  });

  it('a lock that is closed is nobody’s, and the first waiter learns how long', async () => {
    await here.listens();
    await here.all('ann', 'bob', 'cid');
    expect(await here.release('ann', 400)).toBe(true);
    await here.woken('bob');
    expect(await here.extend('ann')).toBe('lost');
    expect(await here.release('ann')).toBe(false);
    const reply = await here.acquire('bob');
    expect(reply).toMatchObject({ status: 'held', queued: true, ahead: 0, holder: { instanceId: here.id } });
    expect((reply as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(400);
    expect(await here.acquire('ann', { wait: false })).toMatchObject({ status: 'held' });
    await pass(420);
    expect((await here.acquire('bob')).status).toBe('granted');
  });

  it('two instances are woken each by its own channel', async () => {
    const there = await start();
    await here.listens();
    await there.listens();
    await here.acquire('ann');
    await there.acquire('ann');
    await here.release('ann');
    await there.woken('ann');
    expect([await there.statuses('ann'), here.wakes]).toEqual([['granted'], []]);
  });

  it('readers share a lock, which excludes others and foreign clients', async () => {
    here.setMode('shared', 'ann', 'bob');
    expect(await here.statuses('ann', 'bob', 'ann')).toEqual(['granted', 'granted', 'granted']);
    expect(await deployment.admin.set(here.key, 'foreign', 'PX', 1_000, 'NX')).toBeNull();
    for (const who of ['ann', 'bob']) {
      expect(await here.statuses('cid')).toEqual(['held']);
      expect(await valueOf()).toBe('v2-*');
      expect(await here.release(who)).toBe(true);
    }
    expect([await valueOf(), ...(await here.statuses('cid', 'ann'))]).toEqual([null, 'granted', 'held']);
  });

  it('the marker of readers lasts as long as the longest lease', async () => {
    here.setMode('shared', 'ann', 'bob');
    await here.acquire('ann', { leaseMs: 2_000 });
    await here.acquire('bob', { leaseMs: LONG_MS });
    expect(await deployment.admin.pttl(here.key)).toBeGreaterThan(LONG_MS - 10_000);
    await here.release('bob');
    expect(await deployment.admin.pttl(here.key)).toBeLessThanOrEqual(2_000);
    expect(await here.extend('ann', 30_000)).toBe('renewed');
    expect(await deployment.admin.pttl(here.key)).toBeGreaterThan(20_000);
    await deployment.admin.del(here.key);
    expect(await here.extend('ann', 30_000)).toBe('renewed');
    expect(await valueOf()).toBe('v2-*');
  });

  it('a marker without readers is free, and a reader beside a foreign value has lost the lock', async () => {
    await deployment.admin.set(here.key, 'v2-*', 'PX', LONG_MS);
    expect(await here.store.inspect(here.key)).toBeNull();
    expect(await here.statuses('ann')).toEqual(['granted']);
    await here.release('ann');
    here.setMode('shared', 'bob', 'cid');
    await here.all('bob', 'cid');
    await deployment.admin.set(here.key, 'foreign', 'PX', LONG_MS);
    expect([await here.extend('bob'), await here.release('cid')]).toEqual(['lost', false]);
    expect(await here.store.inspect(here.key)).toMatchObject({ holder: 'foreign', others: [] });
    expect(await here.force()).toBe(true);
    expect(await here.statuses('dot')).toEqual(['granted']);
  });

  it('each reader has a lease, and a writer waits for the last', async () => {
    here.setMode('shared', 'ann', 'bob');
    await here.acquire('ann', { leaseMs: SHORT_MS });
    await here.acquire('bob');
    await pass(SHORT_MS + 20);
    expect([await here.extend('ann'), await here.release('ann'), await here.extend('bob', 1)]).toEqual([
      'lost',
      false,
      'renewed',
    ]);
    const reply = await here.acquire('cid', { wait: false });
    expect(reply).toMatchObject({ status: 'held', holder: { instanceId: here.id, count: 1 } });
    expect((reply as { remainingMs: number }).remainingMs).toBeGreaterThan(LONG_MS - 10_000);
    expect(await here.store.inspect(here.key)).toMatchObject({ holder: here.id, mode: 'shared', others: [] });
    expect([await here.release('bob'), ...(await here.statuses('cid'))]).toEqual([true, 'granted']);
  });

  it('a share that is closed blocks writers for the rest', async () => {
    here.setMode('shared', 'ann');
    await here.acquire('ann');
    expect([await here.release('ann', 300), await here.release('ann')]).toEqual([true, false]);
    expect(await here.statuses('bob')).toEqual(['held']);
    await pass(320);
    expect(await here.statuses('bob')).toEqual(['granted']);
  });

  it('adjacent readers are handed a lock at once, not past a writer', async () => {
    await here.listens();
    here.setMode('shared', 'bob', 'cid', 'eve');
    const tokens = [await here.tokenOf('ann')];
    await here.all('bob', 'cid', 'dot', 'eve');
    await here.release('ann');
    await here.woken('bob', 'cid');
    tokens.push(await here.tokenOf('bob'), await here.tokenOf('cid'));
    await here.release('bob');
    await here.release('cid');
    await here.woken('bob', 'cid', 'dot');
    tokens.push(await here.tokenOf('dot'));
    await here.release('dot');
    await here.woken('bob', 'cid', 'dot', 'eve');
    for (let i = 1; i < tokens.length; i += 1) expect(tokens[i] - tokens[i - 1]).toBeGreaterThanOrEqual(17);
  });

  it('300 readers are handed a lock by several scripts, because each that is woken asks again', async () => {
    await here.listens();
    const readers = Array.from({ length: 300 }, (_, i) => `reader${i}`);
    here.setMode('shared', ...readers);
    await here.acquire('ann');
    await Promise.all(readers.map((reader) => here.acquire(reader)));
    const granted: Promise<AcquireStatus>[] = [];
    here.onWake = (who) => void granted.push(here.acquire(who).then(({ status }) => status));
    await here.release('ann');
    await eventually('all are woken', () => here.wakes.length === 300);
    expect(new Set(await Promise.all(granted))).toEqual(new Set(['granted']));
    expect((await here.store.inspect(here.key))?.others).toHaveLength(299);
  });

  it('permits are granted to as many as there are, and refused to another number', async () => {
    await here.listens();
    here.setMode(2, 'ann', 'bob', 'cid', 'dot');
    here.setMode(3, 'eve', 'fay');
    expect(await here.statuses('ann', 'bob')).toEqual(['granted', 'granted']);
    await here.all('cid', 'dot');
    expect(await here.acquire('eve')).toEqual({ status: 'permits-mismatch', permits: 2 });
    await here.release('bob');
    await here.woken('cid');
    await here.release('ann');
    await here.woken('cid', 'dot');
    await here.release('cid');
    await here.release('dot');
    // One that waited for an exclusive holder is woken, too, and learns why.
    here.wakes.length = 0;
    await here.all('gus', 'ann', 'fay', 'bob');
    await here.release('gus');
    await here.woken('ann', 'fay', 'bob');
    expect(await here.acquire('fay')).toEqual({ status: 'permits-mismatch', permits: 2 });
  });

  it('a release by force ends the hold with that token only, hands off, and wakes the former holder', async () => {
    await here.listens();
    const token = await here.tokenOf('ann');
    await here.acquire('bob');
    expect([await here.force(token + 1), await here.force(token)]).toEqual([false, true]);
    await here.woken('ann', 'bob');
    expect([await here.extend('ann'), ...(await here.statuses('bob'))]).toEqual(['lost', 'granted']);
    expect(await here.force(token)).toBe(false);
    await here.release('bob');
    here.setMode('shared', 'cid', 'dot');
    await here.all('cid', 'dot');
    expect([await here.force(), await here.release('cid'), await here.force(), await valueOf()]).toEqual([
      true,
      false,
      false,
      null,
    ]);
  });

  it('many locks of one tick are granted, renewed and released together, and an error concerns its lock', async () => {
    const keys = Array.from({ length: 150 }, (_, i) => `${here.key}:${i}`);
    const bad = `${here.key}:bad`;
    await deployment.admin.rpush(bad, 'a list');
    await deployment.admin.pexpire(bad, LONG_MS);
    const all = await Promise.allSettled([...keys, bad].map((key, i) => here.acquire(`many${i}`, { key })));
    expect(all.map(({ status }) => status)).toEqual([...keys.map(() => 'fulfilled'), 'rejected']);
    expect(all.at(-1)).toMatchObject({ reason: { refusal: 'WRONGTYPE', permanent: true } });
    const held = keys.map((key, i) => ({ ...here.owned(`many${i}`, key), leaseMs: LONG_MS }));
    expect(new Set(await here.store.extend(held))).toEqual(new Set(['renewed']));
    expect(await Promise.all(keys.map((key, i) => here.release(`many${i}`, 0, key)))).toEqual(keys.map(() => true));
    for (const key of keys) expect(await deployment.admin.exists(key)).toBe(0);
    await deployment.admin.del(bad);
  });

  it('a listing yields each lock once, whichever of its keys exist', async () => {
    await here.listens();
    here.setMode('shared', 'reader');
    await here.all('ann', 'bob');
    await here.acquire('reader', { key: `${here.key}:r` });
    await here.acquire('short', { key: `${here.key}:w`, leaseMs: SHORT_MS });
    await here.acquire('waiter', { key: `${here.key}:w` });
    await pass(SHORT_MS + 20);
    const listed = new Map<string, string | undefined>();
    for await (const { key, state } of here.store.list({ pattern: `${here.key}*`, selects: () => true, count: 100 })) {
      expect(listed.has(key)).toBe(false);
      listed.set(key, state.holder);
    }
    const wanted = new Map([
      [here.key, here.id],
      [`${here.key}:r`, here.id],
      [`${here.key}:w`, undefined],
    ]);
    expect(listed).toEqual(wanted);
    await here.release('reader', 0, `${here.key}:r`);
    await here.release('waiter', 0, `${here.key}:w`);
    await here.release('waiter', 0, `${here.key}:w`);
  });

  it('SCRIPT FLUSH and forged messages harm nothing', async () => {
    await here.listens();
    await here.all('ann', 'bob');
    const nodes = deployment.admin instanceof Cluster ? deployment.admin.nodes('master') : [deployment.admin];
    for (const node of nodes) await node.script('FLUSH');
    expect((await here.acquire('bob')).status).toBe('held');
    const tag = deployment.admin instanceof Cluster ? `{${/\{(.*)\}/.exec(here.key)?.[1]}}:` : '';
    const channel = `lock_nestjs-redis-lock:${tag}v2-${here.id}`;
    const publish = deployment.admin instanceof Cluster ? 'spublish' : 'publish';
    const { owner } = here.owned('bob');
    for (const message of ['', 'x', 'other:1 - key', `${here.id}:1`, `${owner} ${here.key}`, `${owner} - ${here.key}`])
      await deployment.admin[publish](channel, message);
    await here.woken('bob');
    expect(await here.acquire('bob')).toMatchObject({ queued: true, ahead: 0 });
  });
});

type AcquireStatus = Awaited<ReturnType<Instance['acquire']>>['status'];

describe('the connection', () => {
  let redis: RedisServer;
  let admin: Redis;
  const opened: Instance[] = [];

  beforeAll(async () => {
    redis = await startRedis({ local: true });
    admin = new Redis(redis.url);
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
    await admin.flushall();
  });
  afterAll(async () => {
    admin.disconnect();
    await redis.stop();
  });

  const startWith = async (connection: OpenClient, requestTimeoutMs = 400): Promise<Instance> => {
    const instance = new Instance(connection, `{silent${(tests += 1)}}:1`, requestTimeoutMs);
    opened.push(instance);
    await instance.acquire('first', { key: `${instance.key}:first` });
    return instance;
  };

  it.each([ioredis, NODE_REDIS[0]])(
    'that is silent ends the requests, and what follows works: $name',
    async (library) => {
      const here = await startWith(await library.connect(redis.url));
      await here.acquire('ann');
      redis.pause();
      try {
        const asked = [here.acquire('bob'), here.release('first', 0, `${here.key}:first`), here.extend('ann')] as const;
        const [acquired, released, extended] = await Promise.allSettled(asked);
        for (const one of [acquired, released])
          expect(one).toMatchObject({ reason: new UnansweredError('no reply within 400 ms') });
        expect(extended).toMatchObject({ value: 'unknown' });
        expect(here.downs.length).toBeGreaterThan(0);
      } finally {
        redis.resume();
      }
      expect(await here.release('ann')).toBe(true);
      expect(await here.release('bob')).toBeDefined();
      expect(await here.store.inspect(here.key)).toBeNull();
    },
  );

  it.each([ioredis, NODE_REDIS[0]])('that ends takes its requests along, and comes back: $name', async (library) => {
    const here = await startWith(await library.connect(redis.url), 5_000);
    await here.acquire('ann');
    redis.pause();
    const asked = Promise.allSettled([here.acquire('bob', { wait: false }), here.release('first'), here.extend('ann')]);
    await pass(50);
    await redis.kill();
    const [acquired, released, extended] = await asked;
    for (const one of [acquired, released]) {
      expect(one.status).toBe('rejected');
      const { reason } = one as PromiseRejectedResult;
      expect(reason instanceof UnansweredError || reason instanceof LockUnavailableError).toBe(true);
    }
    expect(extended).toMatchObject({ value: 'unknown' });
    await expect(here.release('ann')).rejects.toBeInstanceOf(LockUnavailableError);
    // An acquire request waits for the connection, and is sent once it is there.
    const waits = here.acquire('cid');
    await redis.restart();
    // The client sends bob's request again. Its owner is over, and is released.
    expect(await waits).toMatchObject({ status: expect.stringMatching(/granted|held/) });
    await here.release('bob');
    expect(await here.tokenOf('cid')).toBeGreaterThan(0);
    expect(here.reconnections).toBeGreaterThan(0);
  });

  it('is waited for at the start', async () => {
    const client = new Redis(redis.url, { lazyConnect: true });
    const connection = { client, quit: () => client.quit(), disconnect: () => client.disconnect() };
    const here = new Instance(connection, '{start}:1');
    opened.push(here);
    expect((await here.acquire('ann')).status).toBe('granted');
  });

  it('a tick costs one packet, and one call for each kind', async () => {
    const here = await startWith(await ioredis.connect(redis.url));
    const keys = Array.from({ length: 60 }, (_, i) => `${here.key}:${i}`);
    const ask = () => Promise.all(keys.map((key, i) => here.acquire(`c${i}`, { key })));
    const free = () => Promise.all(keys.map((key, i) => here.release(`c${i}`, 0, key)));
    await ask();
    await free();
    await admin.config('RESETSTAT');
    await ask();
    await free();
    const calls = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'));
    expect(calls?.[1]).toBe('2');
  });
});
