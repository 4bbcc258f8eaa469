import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  attemptChannel,
  type AttemptEvent,
  LockTimeoutError,
  LockUnavailableError,
  MemoryStore,
  type LockService,
} from 'nestjs-redis-lock';
import { createTestBench, createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import type { FaultyStore } from '../support/faulty-store.js';
import { faultyLocks, outcome } from '../support/locks.js';

describe('the channel of attempts', () => {
  let clock: ManualClock;
  let one: LockService;
  let other: LockService;
  let events: AttemptEvent[];
  const listener = (event: unknown): void => void events.push(event as AttemptEvent);
  const outcomes = (): string[] => events.map((event) => event.outcome);

  beforeEach(() => {
    Logger.overrideLogger(false);
    events = [];
    clock = new ManualClock();
    const store = new MemoryStore(clock);
    one = createTestLocks({ store, clock, identity: 'shop-1' });
    other = createTestLocks({ store, clock, identity: 'shop-2' });
    attemptChannel.subscribe(listener);
  });

  afterEach(() => {
    attemptChannel.unsubscribe(listener);
  });

  it('publishes a request that is granted', async () => {
    await one.acquire('goods:300');
    expect(events).toEqual([
      {
        instance: 'default',
        resource: 'goods:300',
        keys: ['{lock_goods}:300'],
        attempt: expect.any(Number),
        outcome: 'granted',
        elapsedMs: 0,
        heldBy: undefined,
        isOwn: undefined,
        queuedAhead: undefined,
        remainingMs: undefined,
        error: undefined,
      },
    ]);
  });

  it('publishes the place in the queue, who holds the lock, and the handoff', async () => {
    const lock = await other.acquire('goods:300');
    const waiting = outcome(one.acquire('goods:300'));
    await clock.advance(100);
    expect(events[1]).toMatchObject({ outcome: 'queued', heldBy: 'shop-2', isOwn: false, queuedAhead: 0 });
    expect(events[1].remainingMs).toBe(30_000);
    await lock.release();
    await clock.advance(0);
    expect(waiting.value).toBeDefined();
    expect(outcomes()).toEqual(['granted', 'queued', 'handed-off']);
    expect(events[2]).toMatchObject({ attempt: events[1].attempt, elapsedMs: 100 });
  });

  it('publishes who holds the lock of a call that does not wait', async () => {
    await other.acquire('goods:300');
    await expect(one.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
    expect(events[1]).toMatchObject({ outcome: 'held', heldBy: 'shop-2', queuedAhead: undefined });
  });

  it('publishes one event for a request for several locks', async () => {
    await one.acquire(['goods:1', 'goods:2']);
    expect(events).toMatchObject([{ outcome: 'granted', keys: ['{lock_goods}:1', '{lock_goods}:2'] }]);
  });

  it('publishes nothing for callers that share a hold or hand it to each other', async () => {
    await one.using('goods:1', () => one.using('goods:1', () => undefined));
    expect(outcomes()).toEqual(['granted']);
    await Promise.all(Array.from({ length: 10 }, () => one.using('goods:2', () => undefined)));
    expect(outcomes().length).toBeLessThan(1 + 10);
  });

  it('publishes another number of permits', async () => {
    await other.acquire('goods:300', { permits: 2 });
    await expect(one.acquire('goods:300', { permits: 3 })).rejects.toMatchObject({ code: 'LOCK_CONFIG' });
    expect(outcomes()).toEqual(['granted', 'permits-mismatch']);
  });

  it('publishes each request that fails, with its error', async () => {
    const bench = createTestBench();
    bench.unavailable();
    await expect(bench.locks.acquire('goods:300')).rejects.toThrow(LockUnavailableError);
    expect(new Set(outcomes())).toEqual(new Set(['failed']));
    expect(events[0].error).toBeInstanceOf(LockUnavailableError);
  });

  it.each<[what: string, end: (store: FaultyStore, clock: ManualClock) => unknown, error: string]>([
    ['gets no reply in time', (_, time) => time.advance(1_100), 'no reply within 1000 ms'],
    ['loses its connection', (store) => store.disconnect(), 'the connection ended before the reply'],
  ])('publishes a request that %s', async (_what, end, error) => {
    const { locks, store, clock: time } = faultyLocks();
    store.hold('acquire');
    const waiting = outcome(locks.acquire('goods:300'));
    await time.advance(0);
    await end(store, time);
    expect(waiting).toEqual({});
    expect(events).toMatchObject([{ outcome: 'failed', error: { message: expect.stringContaining(error) } }]);
  });

  it('has no owner, which would be enough to release the lock', async () => {
    await other.acquire('goods:300');
    await expect(one.acquire('goods:300', { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
    const text = JSON.stringify(events);
    expect(text).not.toContain(one.engine.instanceId);
    expect(text).not.toContain(other.engine.instanceId);
  });

  it('publishes nothing without a subscriber', async () => {
    attemptChannel.unsubscribe(listener);
    const publish = jest.spyOn(attemptChannel, 'publish');
    const bench = createTestBench();
    await bench.occupy('goods:300', { forMs: 500 });
    await bench.locks.using('goods:300', () => undefined);
    bench.unavailable();
    await expect(bench.locks.acquire('goods:1')).rejects.toThrow(LockUnavailableError);
    expect(publish).not.toHaveBeenCalled();
    publish.mockRestore();
  });
});
