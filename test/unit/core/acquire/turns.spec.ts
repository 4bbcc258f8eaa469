import { describe, expect, it } from '@jest/globals';
import type { LockService, RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { MemoryStore } from '../../../../lib/stores/memory/memory.store.js';
import type { AcquireReply, AcquireRequest, ReleaseRequest } from '../../../../lib/core/store/lock-store.js';
import { outcome } from '../../../support/async.js';
import { FaultyStore } from '../../../support/faulty-store.js';
import { JitteredClock } from '../../../support/jittered-clock.js';
import { KEY, Stranger } from '../../../support/locks.js';

const RESOURCE = 'goods:300';

/** A store whose releases notify the other instances, as those of `redisson()`. */
class NotifyingStore extends FaultyStore {
  constructor(
    inner: MemoryStore,
    private readonly all: readonly FaultyStore[],
  ) {
    super(inner);
  }

  override async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const reply = await super.acquire(request);
    return reply.status === 'held' ? { ...reply, queued: true } : reply;
  }

  override async release(request: ReleaseRequest): Promise<boolean> {
    const wasHeld = await super.release(request);
    for (const other of this.all) if (wasHeld && other !== this) other.reportReleased(KEY);
    return wasHeld;
  }
}

/** Instances on one store without a queue. */
class World {
  readonly clock = new JitteredClock();
  private readonly memory = new MemoryStore(this.clock);
  readonly stranger = new Stranger(this.memory, this.clock);
  readonly stores: FaultyStore[] = [];

  constructor(
    private readonly pauseMs?: number,
    private readonly notifies = false,
  ) {}

  instance(options: RedisLockModuleOptions = {}): LockService {
    const store = this.notifies ? new NotifyingStore(this.memory, this.stores) : new FaultyStore(this.memory);
    store.less.queue = false;
    if (this.pauseMs !== undefined) store.less.retry = { pauseMs: this.pauseMs, limit: Infinity };
    this.stores.push(store);
    return createTestLocks({ clock: this.clock, store: () => store, ...options });
  }

  pass(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.schedule(ms, resolve));
  }

  /** Lets callers use the lock over and over, until `untilMs` on the clock. Returns their waits. */
  busy(locks: LockService, callers: number, untilMs = Infinity): number[] {
    const waits: number[] = [];
    const call = async (): Promise<void> => {
      while (this.clock.now() < untilMs) {
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

describe('the turns of instances at a store without a queue', () => {
  it.each([
    { count: 2, ratio: 1.5, longestMs: 300 },
    { count: 2, pauseMs: 100, ratio: 1.5, longestMs: 700 },
    { count: 2, notifies: true, ratio: 1.5, longestMs: 300 },
    { count: 5, ratio: 3, longestMs: 2_000 },
    { count: 5, pauseMs: 100, ratio: 3, longestMs: 2_000 },
    { count: 5, notifies: true, ratio: 1.5, longestMs: 1_000 },
  ])('are shared evenly, and nobody waits for long: %j', async ({ count, pauseMs, notifies, ratio, longestMs }) => {
    const world = new World(pauseMs, notifies);
    const all = Array.from({ length: count }, () => world.busy(world.instance(), 5));
    await world.clock.advance(10_000);
    const grants = all.map(({ length }) => length);
    expect(Math.max(...grants) / Math.min(...grants)).toBeLessThan(ratio);
    for (const waits of all) expect(Math.max(...waits)).toBeLessThan(longestMs);
  });

  it.each([
    { instances: 1 },
    { instances: 1, pauseMs: 100 },
    { instances: 2 },
    { instances: 2, notifies: true },
    { instances: 5, notifies: true },
  ])('let a client in that polls every 100 ms: %j', async ({ instances, pauseMs, notifies }) => {
    const world = new World(pauseMs, notifies);
    for (let i = 0; i < instances; i += 1) world.busy(world.instance(), 5);
    const waits = world.poller(100);
    await world.clock.advance(10_000);
    expect(waits.length).toBeGreaterThan(5);
    expect(Math.max(...waits)).toBeLessThanOrEqual(1_600);
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

  it('cost nothing for 140 ms if nobody else comes, and later a seventh of the time at most', async () => {
    const world = new World();
    const waits = world.busy(world.instance(), 5);
    await world.clock.advance(140);
    expect(waits.length).toBeGreaterThanOrEqual(70);
    await world.clock.advance(9_860);
    // At 2 ms each, without yields.
    expect(waits.length).toBeGreaterThan(5_000 * 0.86);
  });

  it.each([false, true])('are over 1.5 s after the others are gone, whether releases notify: %s', async (notifies) => {
    const world = new World(undefined, notifies);
    const waits = world.busy(world.instance(), 5);
    world.busy(world.instance(), 5, 3_000);
    await world.clock.advance(4_600);
    const before = waits.length;
    await world.clock.advance(6_000);
    expect(waits.length - before).toBeGreaterThan(3_000 * 0.86);
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

  it('leave the first 140 ms of each 1.5 s free after the first turn', async () => {
    const world = new World(undefined, true);
    for (let i = 0; i < 2; i += 1) world.busy(world.instance(), 5);
    // The quiet time follows the wall clock, which all processes share.
    await world.clock.advance(3_000 - (world.clock.wallTime() % 1_500));
    const requested = (): number => world.stores.reduce((sum, { acquires }) => sum + acquires.length, 0);
    for (let period = 0; period < 5; period += 1) {
      // What was granted before the quiet time may be held for another 34 ms.
      await world.clock.advance(35);
      const before = requested();
      await world.clock.advance(104);
      expect(requested()).toBe(before);
      await world.clock.advance(1_500 - 139);
      expect(requested()).toBeGreaterThan(before + 20);
    }
  });

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
