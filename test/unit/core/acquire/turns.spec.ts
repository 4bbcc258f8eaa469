import { describe, expect, it } from '@jest/globals';
import { type LockService, MemoryStore, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { outcome } from '../../../support/async.js';
import { FaultyStore } from '../../../support/faulty-store.js';
import { KEY, Stranger } from '../../../support/locks.js';

const RESOURCE = 'goods:300';

/** A manual clock with random numbers that are the same in each run. */
class JitteredClock extends ManualClock {
  private state = 1;

  override random(): number {
    this.state = (this.state * 48_271) % 2_147_483_647;
    return this.state / 2_147_483_647;
  }
}

/** Instances on one store without a queue. */
class World {
  readonly clock = new JitteredClock();
  private readonly memory = new MemoryStore(this.clock);
  readonly stranger = new Stranger(this.memory, this.clock);
  readonly stores: FaultyStore[] = [];

  constructor(private readonly pauseMs?: number) {}

  instance(options: RedisLockModuleOptions = {}): LockService {
    const store = new FaultyStore(this.memory);
    store.less.queue = false;
    if (this.pauseMs !== undefined) store.less.retry = { pauseMs: this.pauseMs, limit: Infinity };
    this.stores.push(store);
    return createTestLocks({ clock: this.clock, store, ...options });
  }

  pass(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(ms, resolve));
  }

  /** Lets callers use the lock over and over. Returns their waits. */
  busy(locks: LockService, callers: number): number[] {
    const waits: number[] = [];
    const call = async (): Promise<void> => {
      for (;;) {
        const since = this.clock.now();
        await locks.using(RESOURCE, () => {
          waits.push(this.clock.now() - since);
          return this.pass(2);
        });
      }
    };
    for (let i = 0; i < callers; i += 1) call().catch(() => undefined);
    return waits;
  }

  /** Lets a foreign client request the lock every `paceMs`. Returns its waits. */
  poller(paceMs: number): number[] {
    const waits: number[] = [];
    const poll = async (): Promise<void> => {
      for (let since = this.clock.now(); ; await this.pass(paceMs)) {
        if (!(await this.stranger.take(KEY))) continue;
        waits.push(this.clock.now() - since);
        await this.pass(2);
        await this.stranger.leave(KEY);
        since = this.clock.now();
      }
    };
    void poll();
    return waits;
  }
}

const mean = (waits: readonly number[]): number => waits.reduce((sum, wait) => sum + wait, 0) / waits.length;

describe('the turns of instances at a store without a queue', () => {
  it.each([
    ['two', 2, undefined, 10],
    ['two that pause for 100 ms', 2, 100, 10],
    ['five', 5, undefined, 15],
    ['five that pause for 100 ms', 5, 100, 15],
  ])('are shared evenly, and nobody waits for long: %s', async (_, count, pauseMs, times) => {
    const world = new World(pauseMs);
    const all = Array.from({ length: count }, () => world.busy(world.instance(), 5));
    await world.clock.advance(10_000);
    const grants = all.map(({ length }) => length);
    expect(Math.max(...grants) / Math.min(...grants)).toBeLessThan(2);
    for (const waits of all) expect(Math.max(...waits)).toBeLessThan(times * mean(waits));
  });

  it.each([undefined, 100])('let a client in that polls every 100 ms, at pauses of %s ms', async (pauseMs) => {
    const world = new World(pauseMs);
    world.busy(world.instance(), 5);
    const waits = world.poller(100);
    await world.clock.advance(10_000);
    expect(waits.length).toBeGreaterThan(8);
    expect(Math.max(...waits)).toBeLessThan(1_500);
  });

  it('let an instance in that requests the key now and then', async () => {
    const world = new World();
    world.busy(world.instance(), 5);
    await world.clock.advance(5_000);
    const rare = world.instance();
    for (let i = 0; i < 5; i += 1) {
      const waiting = outcome(rare.using(RESOURCE, { waitMs: 1_500 }, () => 'served'));
      await world.clock.advance(1_500);
      expect(waiting.value).toBe('served');
    }
  });

  it('cost nothing while callers come one after the other', async () => {
    const world = new World();
    const locks = world.instance();
    for (let i = 0; i < 1_000; i += 1) await locks.using(RESOURCE, () => undefined);
    expect(world.clock.now()).toBe(0);
  });

  it('cost nothing for 125 ms if nobody else comes, and later a tenth of the time', async () => {
    const world = new World();
    const waits = world.busy(world.instance(), 5);
    await world.clock.advance(125);
    expect(waits.length).toBeGreaterThanOrEqual(62);
    await world.clock.advance(9_875);
    // At 2 ms each, without yields.
    expect(waits.length).toBeGreaterThan(5_000 * 0.86);
  });

  it('cost nothing if the key is left free between its uses', async () => {
    const world = new World();
    const locks = world.instance();
    let longest = 0;
    const visit = async (): Promise<void> => {
      const since = world.clock.now();
      await Promise.all([1, 2].map(() => locks.using(RESOURCE, () => world.pass(2))));
      longest = Math.max(longest, world.clock.now() - since);
      await world.pass(20);
    };
    const visits = async (): Promise<void> => {
      for (let i = 0; i < 200; i += 1) await visit();
    };
    void visits();
    await world.clock.advance(10_000);
    expect(longest).toBeLessThan(5);
  });

  it('end, so that a yield leaves the caller half of its time', async () => {
    const world = new World(1_000);
    const locks = world.instance({ fairness: 'strict' });
    await world.stranger.take(KEY);
    const first = outcome(locks.acquire(RESOURCE));
    await world.clock.advance(100);
    await world.stranger.leave(KEY);
    await world.clock.advance(1_000);
    await first.value?.release();
    const second = outcome(locks.using(RESOURCE, { waitMs: 40 }, () => 'served'));
    await world.clock.advance(19);
    expect(second).toEqual({});
    await world.clock.advance(1);
    expect(second.value).toBe('served');
  });

  it.each([true, false])(
    'leave the first 150 ms of each 1.5 s to others if releases notify any (%s)',
    async (notified) => {
      const world = new World();
      const locks = world.instance({ fairness: 'strict' });
      const [store] = world.stores;
      // The quiet time follows the wall clock, which all processes share.
      await world.clock.advance(1_500 - (world.clock.wallTime() % 1_500));
      world.busy(locks, 5);
      const notify = (): void => {
        store.reportNotified(KEY, notified ? 1 : 0);
        world.clock.schedule(20, notify);
      };
      notify();
      await world.clock.advance(3_000);
      const requested = (): number => store.acquires.length;
      const quiet: number[] = [];
      const loud: number[] = [];
      for (let period = 0; period < 5; period += 1) {
        // Local handoffs and the last request of the period before may go on for 50 ms.
        await world.clock.advance(55);
        let before = requested();
        await world.clock.advance(90);
        quiet.push(requested() - before);
        before = requested();
        await world.clock.advance(1_500 - 145);
        loud.push(requested() - before);
      }
      // A yield that has begun before may end there.
      const isQuiet = quiet.map((count) => count <= 1);
      expect(isQuiet).toEqual(quiet.map(() => notified));
      for (const count of loud) expect(count).toBeGreaterThan(10);
    },
  );

  it('do not delay tryAcquire', async () => {
    const world = new World();
    const locks = world.instance({ fairness: 'strict' });
    await world.stranger.take(KEY);
    expect(await locks.tryAcquire(RESOURCE)).toBeNull();
    await world.stranger.leave(KEY);
    for (let i = 0; i < 100; i += 1) await (await locks.tryAcquire(RESOURCE))?.release();
    expect(world.clock.now()).toBe(0);
  });

  it('are not used by a store with a queue', async () => {
    const world = new World();
    const locks = world.instance();
    for (const store of world.stores) store.less.queue = true;
    const waits = world.busy(locks, 5);
    await world.clock.advance(2_000);
    expect(waits.length).toBeGreaterThanOrEqual(1_000);
  });
});
