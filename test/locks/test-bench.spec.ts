import { Controller, type INestApplication, Logger, Module, Param, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  CurrentLock,
  type Lock,
  LockConfigError,
  Locked,
  LockLostError,
  LockService,
  LockTimeoutError,
  LockUnavailableError,
  memory,
  RedisLockModule,
} from 'nestjs-redis-lock';
import {
  createTestBench,
  createTestLocks,
  ManualClock,
  RedisLockTestingModule,
  type TestBench,
  withLocks,
  withMemoryLocks,
} from 'nestjs-redis-lock/testing';
import { deferred, eventually, outcome } from '../support/async.js';

class Stock {
  constructor(private readonly save: () => unknown = () => undefined) {}

  @Locked('goods:<id>')
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<string> {
    await this.save();
    lock?.assertHeld();
    return `bought ${id}`;
  }

  @Locked('goods:<id>', { waitMs: Infinity })
  async buyLate(id: number): Promise<string> {
    return `bought ${id} late`;
  }
}

/** Lets the event loop turn, as other work of a test does. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe('createTestBench()', () => {
  let bench: TestBench;

  beforeEach(() => {
    Logger.overrideLogger(false);
    bench = createTestBench();
  });

  describe('occupy()', () => {
    it('makes calls time out, without real time', async () => {
      const stock = withLocks(new Stock(), bench.locks);
      await bench.occupy('goods:300');
      const error = await stock.buy(300).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect(error).toMatchObject({ resource: 'goods:300', heldBy: 'another-process', isOwn: false });
      expect((error as LockTimeoutError).elapsedMs).toBeGreaterThanOrEqual(5_000);
      expect(await stock.buy(301)).toBe('bought 301');
    });

    it('lets the next call in once it is released', async () => {
      const stock = withLocks(new Stock(), bench.locks);
      const occupied = await bench.occupy('goods:300');
      await occupied.release();
      await occupied.release();
      expect(await stock.buy(300)).toBe('bought 300');
    });

    it('ends after a time, which only calls that wait as long see', async () => {
      const stock = withLocks(new Stock(), bench.locks);
      await bench.occupy('goods:300', { forMs: 2_000 });
      await expect(bench.locks.acquire('goods:300', { waitMs: 1_000 })).rejects.toThrow(LockTimeoutError);
      expect(await stock.buy(300)).toBe('bought 300');
      expect(bench.clock.now()).toBeGreaterThanOrEqual(2_000);
      await bench.occupy('goods:300', { forMs: 10_000 });
      expect(await stock.buyLate(300)).toBe('bought 300 late');
    });

    it('lets calls without a limit wait until it is released', async () => {
      const stock = withLocks(new Stock(), bench.locks);
      const occupied = await bench.occupy('goods:300');
      const waiting = outcome(stock.buyLate(300));
      await turns(200);
      expect(waiting).toEqual({});
      expect(bench.clock.now()).toBe(0);
      await occupied.release();
      await eventually('the call has the lock', () => waiting.value === 'bought 300 late');
    });

    it('passes time while a lock without a holder stays closed', async () => {
      await bench.locks.using('goods:300', { minHoldMs: 2_000 }, async () => undefined);
      await bench.locks.using('goods:300', async () => undefined);
      expect(bench.clock.now()).toBeGreaterThanOrEqual(2_000);
    });

    it('does not pass time while calls only wait for each other', async () => {
      const saved = deferred();
      const stock = withLocks(new Stock(() => saved.promise), bench.locks);
      const [one, other] = [stock.buy(300), stock.buy(300)];
      await turns(200);
      expect(bench.clock.now()).toBe(0);
      saved.resolve();
      expect(await Promise.all([one, other])).toEqual(['bought 300', 'bought 300']);
    });

    it('refuses a lock that a call holds, and says who holds what', async () => {
      await bench.occupy('goods:1');
      await bench.locks.using('goods:300', async () => {
        await expect(bench.occupy('goods:300')).rejects.toThrow(
          'occupy(): goods:300 is already held; expected a free lock. Calls hold goods:300, and the bench ' +
            'occupies goods:1.',
        );
      });
      await expect(bench.occupy('goods:1')).rejects.toThrow('goods:1 is already held');
      await (await bench.occupy('goods:300')).release();
    });

    it('leaves the clock of a test alone', async () => {
      const clock = new ManualClock();
      bench = createTestBench({ clock, waitMs: 500 });
      await bench.occupy('goods:300');
      const waiting = outcome(bench.locks.acquire('goods:300'));
      await turns(200);
      expect([waiting, clock.now()]).toEqual([{}, 0]);
      await clock.advance(600);
      expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    });
  });

  describe('lose()', () => {
    it('loses the lock of a call, and another one can have it', async () => {
      const stock = withLocks(new Stock(() => bench.lose('goods:300')), bench.locks);
      await expect(stock.buy(300)).rejects.toThrow(LockLostError);
      await bench.locks.acquire('goods:300', { waitMs: 0 });
    });

    it('throws if no call holds the lock', () => {
      expect(() => bench.lose('goods:300')).toThrow('lose(): no call holds goods:300. Calls hold nothing');
    });
  });

  describe('unavailable()', () => {
    it('makes calls fail, without real time, until Redis is back', async () => {
      const stock = withLocks(new Stock(), bench.locks);
      bench.unavailable();
      bench.unavailable(true);
      await expect(stock.buy(300)).rejects.toThrow(LockUnavailableError);
      await expect(bench.locks.inspect('goods:300')).rejects.toThrow(LockUnavailableError);
      expect((await bench.locks.ping()).isUp).toBe(false);
      expect((await createTestLocks({ bench }).ping()).isUp).toBe(false);
      bench.unavailable(false);
      expect(await stock.buy(300)).toBe('bought 300');
      expect((await bench.locks.ping()).isUp).toBe(true);
    });

    it('ends the wait for a call that holds the lock', async () => {
      const saved = deferred();
      const stock = withLocks(new Stock(() => saved.promise), bench.locks);
      const holder = stock.buy(300);
      const waiting = stock.buy(300);
      await turns(50);
      bench.unavailable();
      await expect(waiting).rejects.toThrow(LockUnavailableError);
      bench.unavailable(false);
      saved.resolve();
      expect(await holder).toBe('bought 300');
    });

    it('loses held locks after their leases, and keeps those of the other process', async () => {
      const clock = new ManualClock();
      bench = createTestBench({ clock, ttlMs: 10_000 });
      const lock = await bench.locks.acquire('goods:300');
      await bench.occupy('goods:301');
      bench.unavailable();
      await clock.advance(5_000);
      lock.assertHeld();
      await clock.advance(5_000);
      expect(lock.signal.aborted).toBe(true);
      bench.unavailable(false);
      await expect(bench.locks.acquire('goods:301', { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
    });

    it('releases later what was to be released meanwhile', async () => {
      const stock = withLocks(new Stock(() => bench.unavailable()), bench.locks);
      expect(await stock.buy(300)).toBe('bought 300');
      bench.unavailable(false);
      expect(await withLocks(new Stock(), bench.locks).buy(300)).toBe('bought 300');
      expect(bench.clock.now()).toBeLessThan(5_000);
    });
  });

  it('begins again after reset()', async () => {
    await bench.occupy('goods:300');
    bench.unavailable();
    await bench.reset();
    expect(await withLocks(new Stock(), bench.locks).buy(300)).toBe('bought 300');
  });

  it('refuses options that cannot work', async () => {
    expect(() => createTestBench({ ttlMs: 1 })).toThrow(LockConfigError);
    expect(() => createTestBench({ clock: {} as ManualClock })).toThrow('expected a ManualClock');
    await expect(bench.occupy('goods:300', { forMs: -1 })).rejects.toThrow(LockConfigError);
    await expect(bench.occupy('')).rejects.toMatchObject({ code: 'LOCK_KEY' });
    expect(() => createTestLocks({ bench: {} as TestBench })).toThrow('expected the result of createTestBench()');
    expect(() => createTestLocks({ bench, clock: new ManualClock() })).toThrow('bench and clock are both set');
    expect(() => createTestLocks({ bench, store: memory() })).toThrow('bench and store are both set');
  });

  describe('of an application', () => {
    @Controller('goods')
    class GoodsController {
      @Post(':id/buy')
      @Locked('goods:<id>')
      async buy(@Param('id') _id: string): Promise<string> {
        return 'bought';
      }

      @Post(':id/lose')
      @Locked('goods:<id>')
      async lose(@Param('id') id: string): Promise<string> {
        bench.lose(`goods:${id}`);
        return 'sold twice';
      }
    }

    async function startShop(by: string): Promise<INestApplication> {
      @Module({
        imports:
          by === 'withMemoryLocks'
            ? [RedisLockModule.forRoot({ prefix: 'shop_' })]
            : [RedisLockTestingModule.forRoot({ bench, prefix: 'shop_' })],
        controllers: [GoodsController],
      })
      class AppModule {}
      const builder = Test.createTestingModule({ imports: [AppModule] });
      const module = await (by === 'withMemoryLocks' ? withMemoryLocks(builder, { bench }) : builder).compile();
      const app = module.createNestApplication();
      await app.listen(0, '127.0.0.1');
      return app;
    }

    it.each(['withMemoryLocks', 'RedisLockTestingModule'])('gives clients of %s a 423, a 503 and a 500', async (by) => {
      // The application has a prefix of its own, and is there after the lock was occupied.
      await bench.occupy('goods:300');
      const app = await startShop(by);
      const post = async (path: string): Promise<number> => {
        const init = { method: 'POST', headers: { connection: 'close' } };
        return (await fetch(`${await app.getUrl()}/goods/${path}`, init)).status;
      };
      try {
        expect(await post('300/buy')).toBe(423);
        expect(await post('301/buy')).toBe(201);
        expect(await post('302/lose')).toBe(500);
        bench.unavailable();
        expect(await post('301/buy')).toBe(503);
        bench.unavailable(false);
        expect(await post('301/buy')).toBe(201);
      } finally {
        await app.close();
      }
      // The next application is on the same bench.
      expect(() => bench.lose('goods:300')).toThrow('no call holds');
    });

    it.each([
      ['LOCK_TIMEOUT', false],
      ['LOCK_UNAVAILABLE', true],
    ])('lets it close with a handle and a waiter that never end: %s', async (code, isDown) => {
      await bench.occupy('goods:300');
      const app = await startShop('withMemoryLocks');
      const locks = app.get(LockService);
      const lock = await locks.acquire('goods:1');
      const waiting = outcome(locks.acquire('goods:300', { waitMs: 20_000 }));
      bench.unavailable(isDown);
      await app.close();
      expect(lock.signal.aborted).toBe(true);
      // Everything ends once nobody has used it for a second, and releases were repeated for a while.
      await bench.clock.advance(60_000);
      expect(waiting.error).toMatchObject({ code });
      await turns(100);
      expect(bench.clock.pending).toBe(0);
    });
  });
});

describe('ManualClock', () => {
  it('never goes back if two callers advance it at once', async () => {
    const clock = new ManualClock();
    const seen: number[] = [];
    for (const at of [10, 20, 90]) clock.schedule(at, () => seen.push(clock.now()));
    await Promise.all([clock.advance(100), clock.advance(20)]);
    expect(seen).toEqual([10, 20, 90]);
    expect(clock.now()).toBe(100);
    const short = clock.advance(1);
    clock.jump(50);
    await short;
    expect(clock.now()).toBe(150);
  });
});

describe("the fake timers of a test runner, which never fire by themselves, don't stop", () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  it('a bench whose locks are busy, handed off or unavailable', async () => {
    jest.useFakeTimers();
    const bench = createTestBench();
    const busy = await bench.occupy('goods:300');
    await expect(bench.locks.using('goods:300', () => undefined)).rejects.toThrow(LockTimeoutError);
    const waiting = bench.locks.using('goods:300', { waitMs: Infinity }, () => 'late');
    await busy.release();
    expect(await waiting).toBe('late');
    bench.unavailable();
    await expect(bench.locks.using('goods:300', () => undefined)).rejects.toThrow(LockUnavailableError);
  });

  it('thousands of calls in a row', async () => {
    jest.useFakeTimers();
    const locks = createTestLocks();
    for (let id = 0; id < 1_500; id += 1) await locks.using(`goods:${id}`, () => undefined);
    expect(await locks.inspect('goods:0')).toBeNull();
  });
});
