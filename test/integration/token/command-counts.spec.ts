import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { LockOptions, LockService } from 'nestjs-redis-lock';
import { LockRuntime } from '../../../lib/lock-runtime.js';
import { costOf, type Cost } from '../../support/command-counts.js';
import { promisesOf } from '../../support/promise-count.js';
import type { InstanceOptions } from '../../support/redis-locks.js';
import type { ServerManualClock } from '../../support/server-clock/server-manual-clock.js';
import { needWallClocks } from '../../support/server-clock/shim.js';
import { StoppedServers } from '../../support/server-clock/stopped-servers.js';
import { untilSubscribed } from '../../support/subscriber-of.js';
import { silent } from '../../support/silent-logger.js';

needWallClocks();

// What a lock costs in commands and in calls of the server, for each scenario of labs/bench that has such a figure. The
// clock of the server and of the instances stands still, so that no timer fires and no batch gets old. The counts are
// therefore exact.

/** Far more than a test takes. */
const LONG_MS = 3_600_000;

let servers: StoppedServers;
let clock: ServerManualClock;
const running: LockRuntime[] = [];

beforeAll(async () => {
  servers = await StoppedServers.start();
});
afterEach(async () => {
  await clock.until(Promise.all(running.splice(0).map((runtime) => runtime.close())));
  await servers.admin.flushall();
});
afterAll(() => servers.stop());

/**
 * Makes an instance wait for a lock until it is subscribed. What a waiter sends before that depends on how long
 * connecting takes.
 */
async function subscribe(locks: LockService, holder: LockService): Promise<void> {
  const held = await holder.acquire('warm-up');
  const waited = locks.using('warm-up', () => undefined);
  await untilSubscribed(locks);
  await clock.advance(0);
  await held.release();
  await clock.until(waited);
}

/** Starts instances, each of which has connected and loaded its scripts. All but the first are subscribed. */
async function instances(count: number, { passing, ...options }: InstanceOptions = {}): Promise<LockService[]> {
  clock = servers.clock();
  const patient = { ttlMs: LONG_MS, waitMs: Infinity, shutdownGraceMs: 0 };
  const given = { redis: servers.url, ...patient, checks: 'off', ...options } as const;
  const started: LockService[] = [];
  for (let i = 0; i < count; i += 1) {
    const runtime = LockRuntime.start(given, 'counted', {
      clock,
      passing,
      requestTimeoutMs: LONG_MS,
      logger: silent,
    });
    runtime.connect();
    running.push(runtime);
    await runtime.service.using(`warm-up:${i}`, () => undefined);
    started.push(runtime.service);
    if (i > 0) await subscribe(runtime.service, started[0]);
  }
  // Tokens that are passed on are reserved for the time since the last grant.
  await clock.advance(1_000);
  return started;
}

async function instance(options?: InstanceOptions): Promise<LockService> {
  const [locks] = await instances(1, options);
  return locks;
}

/** Waits until that many instances wait for the lock. */
const queued = (count: number): Promise<unknown> =>
  clock.advanceUntil('they wait', async () => (await servers.admin.zcard('{lock_goods}:300|queue')) === count);

const costHere = (work: () => Promise<unknown>): Promise<Cost> => costOf(() => clock.until(work()), [servers.admin]);

/** Takes the lock for 1 ms. So its next grant has tokens to pass on. */
const cycle = async (locks: LockService, resource: string, options?: LockOptions): Promise<void> => {
  const lock = await locks.acquire(resource, options);
  clock.jump(1);
  await lock.release();
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
    const locks = await instance();
    expect(await costHere(() => tasks(1, 50, locks))).toEqual({ commands: 100, calls: 450 });
  });

  it('costs no more if nobody awaits its release (scenario 1)', async () => {
    const locks = await instance({ awaitRelease: false });
    const cost = await costHere(async () => {
      for (let i = 0; i < 50; i += 1) await locks.using('goods:300', () => clock.jump(1));
    });
    expect(cost).toEqual({ commands: 100, calls: 450 });
  });
});

describe('the code of an uncontended lock', () => {
  const PAIRS = 20;

  it('makes nine promises more than two commands, and reads the clock eight times', async () => {
    const locks = await instance();
    const bare = async (): Promise<void> => {
      for (let i = 0; i < PAIRS; i += 1) {
        await servers.admin.set('bare', 'value');
        await servers.admin.del('bare');
      }
    };
    const locked = async (): Promise<void> => {
      for (let i = 0; i < PAIRS; i += 1) await locks.using('goods:300', () => undefined);
    };
    expect((await promisesOf(locked)) - (await promisesOf(bare))).toBe(9 * PAIRS);
    const reads = jest.spyOn(clock, 'now');
    await locked();
    expect(reads).toHaveBeenCalledTimes(8 * PAIRS);
    reads.mockRestore();
  });
});

describe('the locks of one tick', () => {
  const wave = async (locks: LockService, resources: readonly string[]): Promise<void> => {
    const held = await Promise.all(resources.map((resource) => locks.acquire(resource)));
    clock.jump(1);
    await Promise.all(held.map((lock) => lock.release()));
  };
  const waves = async (locks: LockService, resources: readonly string[]): Promise<void> => {
    for (let i = 0; i < 5; i += 1) await wave(locks, resources);
  };

  it.each([
    [10, { commands: 10, calls: 90 }],
    [100, { commands: 20, calls: 585 }],
    [1_000, { commands: 160, calls: 5_715 }],
  ])('cost few commands if there are %d of them (scenarios 2 and 2b)', async (count, cost) => {
    const locks = await instance();
    // They are sent by 64.
    expect(await costHere(() => waves(locks, family(count)))).toEqual(cost);
  });

  it('cost no more in an instance that has waited for others before (scenario 2)', async () => {
    const [holder, locks] = await instances(2);
    const held = await holder.acquire('goods:300');
    const waited = cycle(locks, 'goods:300');
    await queued(1);
    await held.release();
    await clock.until(waited);
    expect(await costHere(() => waves(locks, family(100)))).toEqual({ commands: 20, calls: 585 });
  });

  it('are renewed and released by 64 (scenario 7)', async () => {
    const locks = await instance({ ttlMs: 600_000 });
    const held = await Promise.all(family(300).map((resource) => locks.acquire(resource)));
    clock.jump(199_000);
    expect(await costHere(() => clock.advance(1_000))).toEqual({ commands: 5, calls: 910 });
    expect(await costHere(() => Promise.all(held.map((lock) => lock.release())))).toEqual({ commands: 5, calls: 20 });
  });
});

describe('one busy lock', () => {
  it('is passed on in its instance without a command (scenario 3)', async () => {
    const [, locks] = await instances(2);
    // One grant and one release for 17 acquisitions.
    expect(await costHere(() => tasks(50, 17, locks))).toEqual({ commands: 100, calls: 450 });
  });

  /** Returns what it costs four instances with ten tasks each, which wait for the lock in a known order. */
  const costOfFour = async (options: InstanceOptions): Promise<Cost> => {
    const [holder, ...all] = await instances(5, options);
    const held = await holder.acquire('goods:300');
    const working: Promise<unknown>[] = [];
    for (const locks of all) {
      working.push(tasks(10, 17, locks));
      await queued(working.length);
    }
    return costHere(() => Promise.all([held.release(), ...working]));
  };

  it('is handed off once for 17 acquisitions (scenario 4)', async () => {
    expect(await costOfFour({ passing: { maxLocalHoldMs: LONG_MS } })).toEqual({ commands: 117, calls: 1_165 });
  });

  it('costs three commands in strict order (scenario 4b)', async () => {
    // An owner joins the queue, asks again when it is woken, and releases.
    expect(await costOfFour({ fairness: 'strict' })).toEqual({ commands: 2_037, calls: 20_365 });
  });

  it('costs its waiters in one instance one request (scenario 5)', async () => {
    const [holder, locks] = await instances(2);
    const held = await holder.acquire('goods:300');
    const waiting: Promise<void>[] = [];
    const cost = await costHere(async () => {
      for (let i = 0; i < 100; i += 1) waiting.push(cycle(locks, 'goods:300'));
      // Another lock of the same instance is requested after them.
      await cycle(locks, 'goods:1');
    });
    await held.release();
    await clock.until(Promise.all(waiting));
    // One script requests both locks, and one releases the other lock.
    expect(cost).toEqual({ commands: 2, calls: 22 });
  });

  it('costs as many calls a release whatever the length of its queue (scenario 5b)', async () => {
    const [holder, ...all] = await instances(21);
    const released = async (count: number): Promise<Cost> => {
      const held = await holder.acquire('goods:300');
      const granted: Promise<void>[] = [];
      for (const locks of all.slice(0, count)) {
        granted.push(cycle(locks, 'goods:300'));
        await queued(granted.length);
      }
      return costHere(() => Promise.all([held.release(), ...granted]));
    };
    await released(20);
    // Each owner asks again when it is woken, and releases.
    expect([await released(3), await released(20)]).toEqual([
      { commands: 7, calls: 65 },
      { commands: 41, calls: 405 },
    ]);
  });
});

describe('a lock that many share', () => {
  it('costs its readers few commands if it is free (scenario 12)', async () => {
    const locks = await instance();
    const cost = await costHere(() => tasks(2_000, 1, locks, { mode: 'shared' }));
    expect(cost).toEqual({ commands: 2, calls: 32 });
  });

  it('costs its readers few commands behind a writer (scenario 12)', async () => {
    const [writer, locks] = await instances(2);
    const held = await writer.acquire('goods:300');
    const cost = await costHere(async () => {
      const reading = tasks(2_000, 1, locks, { mode: 'shared' });
      // The readers' requests have been sent before.
      await cycle(locks, 'other:1');
      await held.release();
      await reading;
    });
    expect(cost).toEqual({ commands: 5, calls: 81 });
  });
});
