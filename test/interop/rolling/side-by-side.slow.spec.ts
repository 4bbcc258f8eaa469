import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { Redis } from 'ioredis';
import type { CreateLocksOptions } from 'nestjs-redis-lock/standalone';
import { LockProcess } from '../../support/lock-process.js';
import { monitor } from '../../support/monitor.js';
import { RedisCluster } from '../../support/redis/index.js';
import { eventually } from '../../support/redis-locks.js';
import type { WorkerCalls } from './worker.js';
import { forTests } from '../../support/for-tests.js';
import { Contention } from '../../support/contention.js';

/** The builds that are kept. Instances of each may share locks with instances of the present code. */
const BUILDS = join(__dirname, 'builds');
const builds = readdirSync(BUILDS).filter((file) => file.endsWith('.mjs'));

/** No lease and no wait ends while a test runs. */
const LONG_MS = 600_000;

// A test that waits for a message hangs if it is not understood.
jest.setTimeout(300_000);

const KEY = '{lock_goods}:300';
const QUEUE = `${KEY}|queue`;

type Side = 'now' | 'before';
type Process = LockProcess<WorkerCalls>;

const here = forTests(new Contention());
const processes: Process[] = [];
const ending: (() => unknown)[] = [];

afterEach(async () => {
  await Promise.all(processes.splice(0).map((process) => process.kill()));
  for (const end of ending.splice(0)) await end();
});

describe.each(builds)('beside the build %s', (build) => {
  /** Starts a process of this build, or of the present code. */
  async function start(side: Side, given: CreateLocksOptions = {}, timers = false): Promise<Process> {
    const options = { redis: here.server.url, ttlMs: LONG_MS, waitMs: LONG_MS, identity: side, ...given };
    const file = side === 'before' ? join(BUILDS, build) : undefined;
    const process = await LockProcess.fork<WorkerCalls>('../interop/rolling/worker.ts', {
      name: side,
      file,
      data: here.server.url,
      timers,
      options,
    });
    processes.push(process);
    return process;
  }

  const all = (sides: readonly Side[], options?: CreateLocksOptions) =>
    Promise.all(sides.map((side) => start(side, options)));

  async function queued(length: number, node = here.admin): Promise<void> {
    await eventually(`${length} are in the queue`, async () => (await node.zcard(QUEUE)) === length);
  }

  /** Lets the processes take turns, each after the other. Returns the log of grants and the messages that woke. */
  async function relay(taking: readonly Process[], node: Redis, turns: number) {
    const { host, port } = node.options;
    const queue = { url: `redis://${host}:${port}`, key: QUEUE };
    const wakes: string[] = [];
    const watching = await monitor({ host, port }, ({ source, words: [command, , message] }) => {
      if (source === 'lua' && /^s?publish$/i.test(command) && message !== '') wakes.push(message);
    });
    ending.push(() => watching.disconnect());
    const done = taking.map(async (process, i) => {
      if (i > 0) await queued(i - 1, node);
      if (i > 0) await eventually('the first has the lock', async () => (await node.exists(KEY)) === 1);
      return process.call('relay', 'goods:300', turns, taking.length, queue, 'log');
    });
    await Promise.all(done);
    await node.ping();
    const log = await here.admin.lrange('log', 0, -1);
    return { log, wakes };
  }

  const crossingsOf = (sides: readonly string[], from: Side, to: Side): number =>
    sides.filter((side, i) => side === to && sides[i - 1] === from).length;

  /** Starts processes that take turns, and returns what they did. @param cluster of the lock. Default: the server. */
  async function relayAll(turns: number, cluster?: RedisCluster) {
    const node = cluster === undefined ? here.admin : (await cluster.ownerOf(KEY)).admin;
    const given = cluster === undefined ? {} : { redis: { nodes: [...cluster.nodes] } };
    const sides: readonly Side[] = ['now', 'before', 'now', 'before'];
    const taking = await Promise.all(sides.map((side) => start(side, { fairness: 'strict', ...given }, true)));
    // The client connects to the nodes, and each process subscribes. From then on nothing needs a timer.
    await relay(taking, node, 1);
    await here.admin.del('log');
    await Promise.all(taking.map((process) => process.call('stopTimers')));
    const { log, wakes } = await relay(taking, node, turns);
    const crossings = { out: crossingsOf(log, 'now', 'before'), back: crossingsOf(log, 'before', 'now') };
    return { turns: log.length, wakes: wakes.length, ...crossings };
  }

  /** Each release hands off to the other build, and each handoff wakes once. */
  const ALTERNATING = { turns: 200, wakes: 199, out: 100, back: 99 };

  it('hands a lock to and fro by messages alone, without a timer', async () => {
    expect(await relayAll(50)).toEqual(ALTERNATING);
  });

  it('does so in a cluster, where channels and fences belong to slots', async () => {
    const cluster = await RedisCluster.start({ replicas: false });
    ending.push(() => cluster.close());
    expect(await relayAll(50, cluster)).toEqual(ALTERNATING);
  });

  it('loses no update, and admits no writer beside others', async () => {
    const sides: readonly Side[] = ['now', 'before', 'now', 'before'];
    const taking = await Promise.all(sides.map((side) => start(side, {}, true)));
    const registers = ['account:1', 'account:2', 'account:3'];
    const done = await Promise.all(
      taking.map((process, seed) => process.call('contend', registers, 'pool:1', 150, seed + 1)),
    );
    expect(done.flatMap(({ faults }) => faults)).toEqual([]);
    for (const register of registers) {
      const written = done.reduce((sum, { increments }) => sum + increments[register], 0);
      expect(await here.admin.get(`${register}.value`)).toBe(String(written));
    }
    const left = (await here.admin.keys('{lock_*')).filter((key) => !key.endsWith('|fence'));
    expect(left).toEqual([]);
  });

  describe.each<[Side, Side]>([
    ['now', 'before'],
    ['before', 'now'],
  ])('from %s to %s', (from, to) => {
    it('a writer wakes the readers of both, the last reader wakes the writer', async () => {
      const [writer, reader, ownReader, next] = await all([from, to, from, to]);
      const first = await writer.call('acquire', 'goods:300');
      const readers = [reader.call('acquire', 'goods:300', { mode: 'shared' })];
      await queued(1);
      readers.push(ownReader.call('acquire', 'goods:300', { mode: 'shared' }));
      await queued(2);
      const writing = next.call('acquire', 'goods:300');
      await queued(3);
      await writer.call('release', 'goods:300');
      const shared = await Promise.all(readers);
      expect(await next.call('refusal', 'goods:300', { permits: 2 })).toContain('is locked');
      expect(await reader.call('release', 'goods:300')).toBe(true);
      await queued(1);
      expect(await ownReader.call('release', 'goods:300')).toBe(true);
      const last = await writing;
      for (const token of shared) {
        expect(token).toBeGreaterThan(first);
        expect(last).toBeGreaterThan(token);
      }
    });

    it('a permit goes to the first waiter, and both agree on their number', async () => {
      const [one, other, second, third] = await all([from, to, to, from]);
      await one.call('acquire', 'goods:300', { permits: 2 });
      await other.call('acquire', 'goods:300', { permits: 2 });
      expect(await third.call('refusal', 'goods:300', { permits: 3 })).toContain('one of 2 permits');
      const waiting = second.call('acquire', 'goods:300', { permits: 2 });
      await queued(1);
      const behind = third.call('acquire', 'goods:300', { permits: 2 });
      await queued(2);
      await one.call('release', 'goods:300');
      await waiting;
      await queued(1);
      await other.call('release', 'goods:300');
      await behind;
      expect(await one.call('tried', 'goods:300', { permits: 2 })).toBeNull();
    });

    it('a call waits for one of its locks, and has all of them in the end', async () => {
      const [holder, waiter] = await all([from, to]);
      await holder.call('acquire', 'goods:300');
      const waiting = waiter.call('all', ['goods:200', 'goods:300', 'goods:400']);
      await queued(1);
      expect(await holder.call('tried', 'goods:200')).toBeNull();
      await holder.call('release', 'goods:300');
      expect(await waiting).toHaveLength(3);
    });

    it('a lock that is closed stays closed', async () => {
      const [holder, waiter] = await all([from, to]);
      await holder.call('acquire', 'goods:300', { minHoldMs: LONG_MS });
      await holder.call('release', 'goods:300');
      expect(await waiter.call('tried', 'goods:300')).toBeNull();
    });

    it('work that is done is not done again', async () => {
      const [holder, waiter] = await all([from, to]);
      expect(await holder.call('once', 'goods:300', LONG_MS)).toBe('done');
      expect(await waiter.call('once', 'goods:300', LONG_MS)).toBe('was done');
    });

    it('a holder that dies keeps the lock closed for its lock delay', async () => {
      const [holder, waiter] = [await start(from, { lockDelayMs: LONG_MS }), await start(to)];
      await holder.call('acquire', 'goods:300');
      await holder.kill();
      expect(await waiter.call('tried', 'goods:300')).toBeNull();
      expect((await waiter.call('inspect', 'goods:300'))?.expiresInMs).toBeGreaterThan(LONG_MS);
    });

    it('a ticket is good in both', async () => {
      const [holder, heir] = await all([from, to]);
      const token = await holder.call('acquire', 'goods:300');
      const ticket = await holder.call('detach', 'goods:300');
      expect(await heir.call('tried', 'goods:300')).toBeNull();
      await heir.call('extendTicket', 'goods:300', ticket);
      expect(await heir.call('resume', 'goods:300', ticket)).toBe(token);
      const next = await heir.call('detach', 'goods:300');
      expect(await holder.call('resume', 'goods:300', next)).toBe(token);
      const last = await holder.call('detach', 'goods:300');
      expect(await heir.call('releaseTicket', 'goods:300', last)).toBe(true);
      expect(await heir.call('tried', 'goods:300')).toBeGreaterThan(token);
    });

    it('a release by force wakes the holder that has lost, and the first waiter', async () => {
      // It renews by a timer, and at this lease not before 200 s have passed without a message.
      const [holder, [waiter, operator]] = [await start(from, {}, true), await all([from, to])];
      await operator.call('acquire', 'goods:300');
      // An instance subscribes when it has to wait.
      const subscribed = holder.call('acquire', 'goods:300');
      await queued(1);
      await operator.call('release', 'goods:300');
      await subscribed;
      const waiting = waiter.call('acquire', 'goods:300');
      await queued(1);
      const lost = holder.call('untilLost', 'goods:300');
      expect(await operator.call('forceRelease', 'goods:300')).toBe(true);
      expect(await lost).toBe('LockLostError');
      await waiting;
    });

    it('each sees who holds and who waits as the other does', async () => {
      const [holder, waiter] = await all([from, to]);
      await holder.call('acquire', 'goods:300', { label: 'order 7, ä' });
      waiter.call('acquire', 'goods:300').catch(() => undefined);
      await queued(1);
      const seen = await waiter.call('inspect', 'goods:300');
      expect(seen).toMatchObject({ identity: from, label: 'order 7, ä', waiting: [{ identity: to, isOwn: true }] });
      const own = await holder.call('inspect', 'goods:300');
      expect(own).toMatchObject({ isOwn: true, holder: seen?.holder, fencingToken: seen?.fencingToken, key: KEY });
      expect(await waiter.call('refusal', 'goods:300')).toContain(`held by ${from} (order 7, ä)`);
    });
  });
});
