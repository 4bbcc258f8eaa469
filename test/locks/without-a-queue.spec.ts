import { answer, type ReplyListener } from '../../lib/contract/reply-listener.js';
import { describe, expect, it } from '@jest/globals';
import { type LockService, LockTimeoutError, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import type { AcquireReply, AcquireRequest, ReleaseRequest } from '../../lib/contract/store.js';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { outcome } from '../support/async.js';
import { FaultyStore } from '../support/faulty-store.js';
import { JitteredClock } from '../support/jittered-clock.js';
import { faultyLocks, KEY, Stranger } from '../support/locks.js';

function unqueuedLocks() {
  const faulty = faultyLocks();
  faulty.store.less.queue = false;
  return faulty;
}

describe('a store without a queue', () => {
  it('is requested again at most every 200 ms', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    expect(store.acquires.every(({ wait }) => !wait)).toBe(true);
    await stranger.leave(KEY);
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('is requested at the pace of its retry policy', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: Infinity };
    await stranger.take(KEY);
    outcome(locks.acquire('goods:300'));
    await clock.advance(1_000);
    // The manual clock jitters each pause to three quarters.
    expect(store.acquires).toHaveLength(14);
  });

  it('is requested again after 1.5 to 3 s if it notifies those that wait', async () => {
    const { clock, locks, store } = unqueuedLocks();
    store.acquire = (request, listener) => {
      store.acquires.push(request);
      answer<AcquireReply>(listener, Promise.resolve({ status: 'held', queued: true, remainingMs: 60_000 }));
    };
    outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    // The manual clock jitters each pause to three quarters.
    await clock.advance(2_249);
    expect(store.acquires).toHaveLength(1);
    await clock.advance(1);
    expect(store.acquires).toHaveLength(2);
  });

  it('throws LockTimeoutError after the limit of its retry policy', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const first = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    const second = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(149);
    expect(first).toEqual({});
    await clock.advance(1);
    expect(store.acquires).toHaveLength(3);
    expect(first.error).toBeInstanceOf(LockTimeoutError);
    expect(second.error).toBeInstanceOf(LockTimeoutError);
    await clock.advance(10_000);
    expect(store.acquires).toHaveLength(3);
  });

  it('counts the limit for each caller, from its first request', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 100, limit: 3 };
    await stranger.take(KEY);
    const first = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(100);
    const second = outcome(locks.acquire('goods:300', { waitMs: Infinity }));
    await clock.advance(50);
    expect(first.error).toBeInstanceOf(LockTimeoutError);
    expect(second).toEqual({});
    await clock.advance(150);
    expect(second.error).toBeInstanceOf(LockTimeoutError);
    expect(store.acquires).toHaveLength(5);
  });

  it('is requested at once after onReleased', async () => {
    const { clock, locks, store, stranger } = unqueuedLocks();
    store.less.retry = { pauseMs: 60_000, limit: Infinity };
    await stranger.take(KEY);
    const waiting = outcome(locks.acquire('goods:300'));
    await clock.advance(10);
    await stranger.leave(KEY);
    store.reportReleased('{lock_goods}:301');
    await clock.advance(0);
    expect(waiting).toEqual({});
    store.reportReleased(KEY);
    await clock.advance(0);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('leaves the key to others for at most half of the time that a caller still waits', async () => {
    const { clock, locks, store } = faultyLocks({ passing: { maxLocalPasses: 0 } });
    store.less.queue = false;
    const lock = await locks.acquire('goods:300');
    await clock.advance(1_000);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 40 }));
    await lock.release();
    await clock.advance(19);
    expect(waiting).toEqual({});
    await clock.advance(1);
    expect(waiting.value?.key).toBe(KEY);
  });

  it('gets a release after a late grant if repeated requests are not idempotent', async () => {
    const { clock, locks, store } = unqueuedLocks();
    store.less.idempotentAcquire = false;
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300', { ttlMs: 100 }));
    await clock.advance(100);
    store.deliver('acquire');
    await clock.advance(200);
    expect(waiting.value?.key).toBe(KEY);
    const [first, second] = store.acquires;
    expect(second.owner).not.toBe(first.owner);
    expect(store.releases).toMatchObject([{ owner: first.owner }]);
  });
});

const RESOURCE = 'goods:300';

/** A store whose releases notify the other instances, as those of `redisson()`. */
class NotifyingStore extends FaultyStore {
  constructor(
    inner: MemoryStore,
    private readonly all: readonly FaultyStore[],
  ) {
    super(inner);
  }

  override acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    const onReply = (reply: AcquireReply): void =>
      listener.onReply(reply.status === 'held' ? { ...reply, queued: true } : reply);
    super.acquire(request, { onReply, onFailed: (error) => listener.onFailed(error) });
  }

  override release(request: ReleaseRequest, listener: ReplyListener<boolean>): void {
    const onReply = (wasHeld: boolean): void => {
      for (const other of this.all) if (wasHeld && other !== (this as FaultyStore)) other.reportReleased(KEY);
      listener.onReply(wasHeld);
    };
    super.release(request, { onReply, onFailed: (error) => listener.onFailed(error) });
  }
}

/** A store whose queue cannot be used, because messages cannot be received. */
class DeafStore extends FaultyStore {
  canQueue(): boolean {
    return false;
  }

  override acquire(request: AcquireRequest, listener: ReplyListener<AcquireReply>): void {
    super.acquire({ ...request, wait: false }, listener);
  }
}

/** Instances on one store without a queue. */
class World {
  readonly clock = new JitteredClock();
  private readonly memory = new MemoryStore(this.clock);
  readonly stranger = new Stranger(this.memory);
  readonly stores: FaultyStore[] = [];

  constructor(
    private readonly pauseMs?: number,
    private readonly notifies = false,
    private readonly isDeaf = false,
  ) {}

  instance(options: RedisLockModuleOptions = {}): LockService {
    const store = this.open();
    store.less.queue = this.isDeaf;
    if (this.pauseMs !== undefined) store.less.retry = { pauseMs: this.pauseMs, limit: Infinity };
    this.stores.push(store);
    return createTestLocks({ clock: this.clock, store: store.factory, ...options });
  }

  private open(): FaultyStore {
    if (this.isDeaf) return new DeafStore(this.memory);
    return this.notifies ? new NotifyingStore(this.memory, this.stores) : new FaultyStore(this.memory);
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
    { count: 2, isDeaf: true, ratio: 1.5, longestMs: 300 },
    { count: 5, isDeaf: true, ratio: 3, longestMs: 2_000 },
  ])('are shared evenly, and nobody waits for long: %j', async (given) => {
    const { count, pauseMs, notifies, isDeaf, ratio, longestMs } = given;
    const world = new World(pauseMs, notifies, isDeaf);
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

  it.each([false, true])('let an instance in that requests the key now and then, whether deaf: %s', async (isDeaf) => {
    const world = new World(undefined, false, isDeaf);
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
});

const WORK_MS = 20;
const SECONDS = 30;

/** Instances of this library, and clients of another one that poll the same key. */
function besideForeign() {
  const { clock, memory, neighbour } = faultyLocks({ waitMs: 60_000 }, undefined, undefined, new JitteredClock());
  const { table } = memory;
  const state = { isOver: false, requests: 0 };
  const pause = (ms: number): Promise<void> => new Promise((resolve) => clock.schedule(ms, resolve));

  /** SET NX: the other library knows no queue. */
  const take = (owner: string): boolean => {
    if (table.holders(KEY).length > 0) return false;
    const { queue, queueEndsAt } = table.rows.get(KEY) ?? { queue: [], queueEndsAt: 0 };
    const lock = { owner, mode: 'exclusive', token: 1, endsAt: clock.now() + 10_000 } as const;
    table.rows.set(KEY, { lock, sharers: [], queue, queueEndsAt });
    return true;
  };
  const leave = (): void => void ((table.rows.get(KEY) as { lock: unknown }).lock = undefined);
  const client = async (owner: string, everyMs: number, count: () => void): Promise<void> => {
    while (!state.isOver) {
      while (!take(owner)) await pause(everyMs * (0.5 + clock.random()));
      await pause(WORK_MS);
      leave();
      count();
      // A round trip, and the loop of the caller.
      await pause(1);
    }
  };
  const start = (): LockService => {
    const { store, locks } = neighbour();
    const acquire = store.acquire.bind(store);
    store.acquire = (request, listener) => {
      state.requests += 1;
      const onReply = (reply: AcquireReply): void => {
        const isForeign = table.holders(KEY).at(0)?.owner.startsWith('foreign') === true;
        const isTheirs = reply.status === 'held' && isForeign;
        listener.onReply(isTheirs ? { ...reply, holder: undefined, isForeign } : reply);
      };
      acquire(request, { onReply, onFailed: (error) => listener.onFailed(error) });
    };
    return locks;
  };
  const caller = async (locks: LockService, count: (waitedMs: number) => void): Promise<void> => {
    while (!state.isOver) {
      const from = clock.now();
      await locks.using('goods:300', async () => {
        count(clock.now() - from);
        await pause(WORK_MS);
      });
    }
  };
  const run = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 1) await clock.advance(1);
  };
  const end = (): void => void (state.isOver = true);
  const queued = (): number => table.waiting(KEY).length;
  return { take, leave, client, start, caller, run, end, queued, requests: () => state.requests };
}

describe('beside foreign clients that poll', () => {
  it.each([
    [1, 1, 3, 10],
    [1, 2, 3, 10],
    [2, 1, 3, 10],
    [1, 1, 1, 10],
    [1, 1, 3, 100],
    [1, 1, 1, 300],
  ])('%i × %i callers get a fair share beside %i clients that poll every %i ms', async (...numbers) => {
    const [instances, callers, clients, everyMs] = numbers;
    const { client, start, caller, run, end } = besideForeign();
    const theirs = Array.from({ length: clients }, () => 0);
    const ours = Array.from({ length: instances * callers }, () => 0);
    let longestMs = 0;
    theirs.forEach((_, i) => void outcome(client(`foreign-${i}:1`, everyMs, () => (theirs[i] += 1))));
    await run(1);
    const services = Array.from({ length: instances }, start);
    ours.forEach((_, i) => {
      const onGranted = (waitedMs: number): void => {
        ours[i] += 1;
        longestMs = Math.max(longestMs, waitedMs);
      };
      void outcome(caller(services[i % instances], onGranted));
    });
    await run(SECONDS * 1_000);
    end();
    const all = [...ours, ...theirs];
    expect(Math.max(...all) / Math.min(...all)).toBeLessThan(3);
    expect(longestMs).toBeLessThan(1_000);
  });

  it('asks less often, the longer one of them has held the lock', async () => {
    const { take, start, run, requests } = besideForeign();
    take('foreign-0:1');
    const locks = start();
    const acquired = outcome(locks.acquire('goods:300'));
    await run(100);
    const first = requests();
    expect(first).toBeGreaterThan(15);
    await run(5_000);
    const before = requests();
    await run(1_000);
    expect(requests() - before).toBeLessThanOrEqual(40);
    expect(requests() - before).toBeGreaterThanOrEqual(20);
    await run(4_000);
    expect(acquired.value).toBeDefined();
  });

  it('does not lose its place in the queue after one of them', async () => {
    const { client, start, run, end, queued } = besideForeign();
    void outcome(client('foreign-0:1', 10, () => end()));
    await run(1);
    const [locks, others] = [start(), start()];
    expect(await others.tryAcquire('goods:300')).toBeNull();
    const held = await firstOf(locks, run);
    void outcome(others.acquire('goods:300'));
    await run(1_000);
    expect(queued()).toBe(1);
    await held.release();
  });
});

/** Acquires the lock while time passes. */
async function firstOf(locks: LockService, run: (ms: number) => Promise<void>) {
  const acquired = locks.acquire('goods:300');
  await run(200);
  return acquired;
}
