import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockOptions, LockService } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { type Clock, SystemClock } from '../../../lib/core/time/clock.js';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import type { InstanceOptions } from '../../support/redis-locks.js';
import { eventually } from '../../support/async.js';
import { RedisCluster } from '../../support/redis/cluster.js';
import { type RedisServer, startRedis } from '../../support/redis/index.js';
import { subscriberOf } from '../../support/subscriber-of.js';

// What a lock costs in commands and in calls of the server, for each scenario of labs/bench that has such a figure. A
// slow machine cannot exceed these bounds:
// - On a clock that stands still no timer fires and no batch gets old, so that only the ticks decide what is sent.
// - Instances that hand off to each other need a clock that runs. Their bounds grow with the time that the test took,
//   by what timers may repeat and slow replies may cost. Where batches matter, the clock moves in steps of 50 ms, so
//   that a batch gets old once in a step.

/** Far more than a test takes. */
const LONG_MS = 3_600_000;
const STEP_MS = 50;
/** A waiting instance repeats its request every 500 ms at the soonest. */
const REPEATS_PER_MS = 1 / 250;

class SteppingClock extends SystemClock {
  override now(): number {
    const now = super.now();
    return now - (now % STEP_MS);
  }
}

/** Commands that only clients send. A script runs the others. */
const SENT = /^(?:eval|evalsha|script\|load|s?subscribe|s?unsubscribe)$/;
const UNRELATED = /^(?:info|config\|resetstat|config|ping|hello|client.*|cluster.*)$/;

interface Cost {
  /** Commands that clients have sent. */
  readonly commands: number;
  /** Commands that the server has run, also inside scripts. */
  readonly calls: number;
  readonly tookMs: number;
}

let server: RedisServer;
let admin: Redis;
const running: LockRuntime[] = [];

beforeAll(async () => {
  server = await startRedis({ local: true });
  admin = new Redis(server.url);
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((runtime) => runtime.close()));
  await admin.flushall();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

async function instance(clock: Clock, { passing, ...options }: InstanceOptions = {}): Promise<LockService> {
  const patient = { ttlMs: LONG_MS, waitMs: Infinity, shutdownGraceMs: 0 };
  const given = { redis: server.url, ...patient, checks: { server: 'off' }, ...options } as const;
  const runtime = LockRuntime.start(given, 'counted', { clock, passing, requestTimeoutMs: LONG_MS });
  runtime.connect();
  running.push(runtime);
  // It connects and loads its scripts.
  await runtime.service.using(`warm-up:${running.length}`, () => undefined);
  return runtime.service;
}

/** Returns what the work costs on these servers. */
async function costOf(work: () => Promise<unknown>, admins: readonly Redis[] = [admin]): Promise<Cost> {
  await Promise.all(admins.map((each) => each.config('RESETSTAT')));
  const start = performance.now();
  await work();
  const tookMs = performance.now() - start;
  const stats = (await Promise.all(admins.map((each) => each.info('commandstats')))).join('\n');
  const counted = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].filter(([, name]) => !UNRELATED.test(name));
  const sum = (matches: readonly RegExpMatchArray[]): number =>
    matches.reduce((total, [, , calls]) => total + Number(calls), 0);
  return { commands: sum(counted.filter(([, name]) => SENT.test(name))), calls: sum(counted), tookMs };
}

/** Expects at most that many commands and calls for each of `count` locks, and what `waiting` instances may repeat. */
function expectCost(
  { commands, calls, tookMs }: Cost,
  count: number,
  each: { commands: number; calls: number },
  waiting = 0,
): void {
  const repeats = waiting * (1 + tookMs * REPEATS_PER_MS);
  expect(commands).toBeLessThanOrEqual(each.commands * count + repeats);
  // A repeated request takes up to 12 calls.
  expect(calls).toBeLessThanOrEqual(each.calls * count + 12 * repeats);
}

/** Returns how many batches may have been sent because they got old, of three kinds of requests. */
const oldBatches = ({ tookMs }: Cost): number => 3 * (1 + tookMs / STEP_MS);

const cycle = async (locks: LockService, resource: string, options?: LockOptions): Promise<void> => {
  await (await locks.acquire(resource, options)).release();
};

/** Tasks that each take the lock that many times, one time after the other. */
const tasks = (count: number, times: number, locks: LockService, options?: LockOptions): Promise<unknown> =>
  Promise.all(
    Array.from({ length: count }, async () => {
      for (let i = 0; i < times; i += 1) await cycle(locks, 'goods:300', options);
    }),
  );

const family = (count: number): string[] => Array.from({ length: count }, (_, i) => `goods:${i}`);

describe('an uncontended lock', () => {
  it('costs two commands and nine calls (scenario 1)', async () => {
    const locks = await instance(new ManualClock());
    const cost = await costOf(() => tasks(1, 200, locks));
    expectCost(cost, 200, { commands: 2, calls: 9 });
  });

  it('costs no more if nobody awaits its release (scenario 1)', async () => {
    const locks = await instance(new ManualClock(), { awaitRelease: false });
    const cost = await costOf(async () => {
      for (let i = 0; i < 200; i += 1) await locks.using('goods:300', () => undefined);
    });
    expectCost(cost, 200, { commands: 2, calls: 9 });
  });
});

describe('the locks of one tick', () => {
  const wave = async (locks: LockService, resources: readonly string[]): Promise<void> => {
    const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
    await Promise.all(held.map((lock) => lock.release()));
  };

  it.each([
    [10, 0.4],
    [100, 0.06],
    [1_000, 0.04],
  ])('cost few commands if there are %d of them (scenarios 2 and 2b)', async (count, commands) => {
    const locks = await instance(new ManualClock());
    const cost = await costOf(async () => {
      for (let i = 0; i < 5; i += 1) await wave(locks, family(count));
    });
    // The first request of a tick goes alone, the others by 64.
    expectCost(cost, 5 * count, { commands, calls: 7 });
  });

  it('cost no more in an instance that has waited for others before (scenario 2)', async () => {
    const [holder, locks] = [await instance(new ManualClock()), await instance(new ManualClock())];
    const held = await holder.acquire('goods:300');
    const waited = cycle(locks, 'goods:300');
    while ((await admin.zcard('{lock_goods}:300|queue')) < 1) await cycle(holder, 'other:1');
    await held.release();
    await waited;
    const cost = await costOf(async () => {
      for (let i = 0; i < 5; i += 1) await wave(locks, family(100));
    });
    expectCost(cost, 500, { commands: 0.06, calls: 7 });
  });

  it('cost few commands in a cluster if they are in one slot (scenario 2c)', async () => {
    const cluster = await RedisCluster.start({ replicas: false });
    const redis = { nodes: [...cluster.nodes] };
    const locks = await instance(new SteppingClock(), { redis });
    await wave(locks, family(100));
    const admins = cluster.masters.map((master) => master.admin);
    const cost = await costOf(async () => {
      for (let i = 0; i < 5; i += 1) await wave(locks, family(100));
    }, admins);
    await Promise.all(running.splice(0).map((runtime) => runtime.close()));
    await cluster.close();
    expectCost(cost, 500, { commands: 0.06 + oldBatches(cost) / 500, calls: 8 });
  });

  it('are renewed by 64 (scenario 7)', async () => {
    const clock = new ManualClock();
    const locks = await instance(clock, { ttlMs: 600_000 });
    const held = await Promise.all(family(640).map((resource) => locks.acquire(resource)));
    // Holds that last subscribe their instance, once.
    await clock.advance(100);
    await eventually('it is subscribed', () => subscriberOf(locks).ready);
    const cost = await costOf(async () => {
      await clock.advance(200_000);
      // The releases come after the renewals on the same connection.
      await Promise.all(held.map((lock) => lock.release()));
    });
    const [renewals, releases] = [4 * Math.ceil(640 / 250), 2 + 640 / 64];
    expectCost(cost, 640, { commands: (renewals + releases) / 640, calls: 7 });
  });
});

describe('one busy lock', () => {
  it('is passed on in its instance without a command (scenario 3)', async () => {
    const locks = await instance(new ManualClock());
    const cost = await costOf(() => tasks(50, 17, locks));
    // One grant and one release for 17 acquisitions.
    expectCost(cost, 850, { commands: 0.13, calls: 0.6 });
  });

  it('is handed off once for 17 acquisitions (scenario 4)', async () => {
    const passing = { maxLocalHoldMs: LONG_MS };
    const all = await Promise.all([1, 2, 3, 4].map(() => instance(new SystemClock(), { passing })));
    const cost = await costOf(() => Promise.all(all.map((locks) => tasks(10, 17, locks))));
    // A handoff whose message took long is not passed on as often. It costs three commands, and has taken its time.
    const slow = 2 * cost.tookMs;
    expectCost(cost, 680, { commands: 0.25 + slow / 680, calls: 2.5 + (10 * slow) / 680 }, all.length);
  });

  it('costs three commands in strict order (scenario 4b)', async () => {
    const all = await Promise.all([1, 2, 3, 4].map(() => instance(new SystemClock(), { fairness: 'strict' })));
    const cost = await costOf(() => Promise.all(all.map((locks) => tasks(10, 17, locks))));
    // A handoff looks at the next entry before it removes it: another wire version may have written it.
    expectCost(cost, 680, { commands: 3.1, calls: 24 }, all.length);
  });

  it('costs its waiters in one instance one request (scenario 5)', async () => {
    const [holder, locks] = [await instance(new ManualClock()), await instance(new ManualClock())];
    const held = await holder.acquire('goods:300');
    const waiting: Promise<void>[] = [];
    const cost = await costOf(async () => {
      for (let i = 0; i < 100; i += 1) waiting.push(cycle(locks, 'goods:300'));
      // Another lock of the same instance is requested after them.
      await cycle(locks, 'goods:1');
    });
    // One request, perhaps one more once the instance is subscribed, and the subscription with its probe.
    expectCost(cost, 1, { commands: 8, calls: 60 });
    await held.release();
    await Promise.all(waiting);
  });

  it('costs as many calls a release whatever the length of its queue (scenario 5b)', async () => {
    const holder = await instance(new SystemClock());
    const all = await Promise.all(Array.from({ length: 30 }, () => instance(new SystemClock())));
    const perRelease = async (count: number): Promise<void> => {
      const held = await holder.acquire('goods:300');
      const granted = all.slice(0, count).map((locks) => cycle(locks, 'goods:300'));
      while ((await admin.zcard('{lock_goods}:300|queue')) < count) await cycle(holder, 'other:1');
      const cost = await costOf(() => Promise.all([held.release(), ...granted]));
      // Handed off, extended and released.
      expectCost(cost, count + 1, { commands: 2, calls: 20 }, count);
    };
    await perRelease(3);
    await perRelease(30);
  });
});

describe('a lock that many share', () => {
  it('costs its readers few commands if it is free (scenario 12)', async () => {
    const locks = await instance(new ManualClock());
    const cost = await costOf(() => tasks(2_000, 1, locks, { mode: 'shared' }));
    expectCost(cost, 2_000, { commands: 0.05, calls: 22 });
  });

  it('costs its readers few commands behind a writer (scenario 12)', async () => {
    const [writer, locks] = [await instance(new SteppingClock()), await instance(new SteppingClock())];
    const held = await writer.acquire('goods:300');
    const cost = await costOf(async () => {
      const reading = tasks(2_000, 1, locks, { mode: 'shared' });
      // The readers' requests have been sent before.
      await cycle(locks, 'other:1');
      await held.release();
      await reading;
    });
    expectCost(cost, 2_000, { commands: 0.12 + oldBatches(cost) / 2_000, calls: 28 }, 1);
  });

  it('costs three commands at most for readers beside writers (scenario 10)', async () => {
    const all = await Promise.all([1, 2].map(() => instance(new SystemClock())));
    const cost = await costOf(() =>
      Promise.all(all.flatMap((locks) => [tasks(9, 20, locks, { mode: 'shared' }), tasks(1, 20, locks)])),
    );
    expectCost(cost, 400, { commands: 3, calls: 50 }, 2 * 10);
  });

  it('costs three commands at most for a permit (scenario 11)', async () => {
    const all = await Promise.all([1, 2].map(() => instance(new SystemClock())));
    const cost = await costOf(() => Promise.all(all.map((locks) => tasks(10, 20, locks, { permits: 5 }))));
    expectCost(cost, 400, { commands: 3, calls: 50 }, 2 * 10);
  });
});
