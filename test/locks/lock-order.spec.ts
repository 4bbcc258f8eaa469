import { beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  Locked,
  lockOrder,
  lockOrderChannel,
  type LockOrderEvent,
  LockOrderError,
  type LockService,
  LockTimeoutError,
  MemoryStore,
} from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, resetLockOrder, withLocks } from 'nestjs-redis-lock/testing';
import { deferred } from '../support/async.js';
import { OrderGraph } from '../../lib/core/order/order-graph.js';

const none = async (): Promise<void> => undefined;

/** Takes one lock inside another. */
function take(locks: LockService, outer: string, inner: string): Promise<void> {
  return locks.using(outer, () => locks.using(inner, none));
}

class Shop {
  constructor(readonly locks: LockService) {}

  @Locked('goods:<id>')
  async buy(id: number): Promise<void> {
    await this.locks.using(`order:${id}`, none);
  }
}

class Refunds {
  constructor(readonly shop: { restock(id: number): Promise<void> }) {}

  @Locked('order:<id>')
  async run(id: number): Promise<void> {
    await this.shop.restock(id);
  }
}

class Warehouse {
  readonly restocked: number[] = [];

  @Locked('goods:<id>')
  async restock(id: number): Promise<void> {
    this.restocked.push(id);
  }
}

const CYCLE = 'goods → order in Shop.buy, order → goods in Refunds.run, by Warehouse.restock';

describe('locks that are taken in two orders', () => {
  let warnings: string[];

  beforeEach(() => {
    resetLockOrder();
    warnings = [];
    Logger.overrideLogger({
      warn: (message: string) => void warnings.push(message),
      log: () => undefined,
      error: () => undefined,
    });
  });

  const applicationOf = (locks: LockService) => ({
    shop: withLocks(new Shop(locks), locks),
    refunds: withLocks(new Refunds(withLocks(new Warehouse(), locks)), locks),
  });

  it('wait for each other until waitMs is over if nothing looks', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock, lockOrder: 'off' });
    const met = deferred();
    const other = deferred();
    const one = locks.using('goods:1', async () => {
      met.resolve();
      await other.promise;
      await locks.using('order:1', none);
    });
    const two = locks.using('order:1', async () => {
      other.resolve();
      await met.promise;
      await locks.using('goods:1', none);
    });
    const both = Promise.allSettled([one, two]);
    await clock.advance(10_000);
    const reasons = (await both).map((result) => (result.status === 'rejected' ? result.reason : undefined));
    expect(reasons.some((reason) => reason instanceof LockTimeoutError)).toBe(true);
    expect(lockOrder().edges).toEqual([]);
  });

  it('fail a test by both places, before they ever meet', async () => {
    const { shop, refunds } = applicationOf(createTestLocks());
    await shop.buy(1);
    const error: unknown = await refunds.run(2).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockOrderError);
    expect(error).toMatchObject({ code: 'LOCK_ORDER', resource: 'goods:2' });
    expect((error as Error).message).toContain(CYCLE);
    await expect(refunds.run(3)).rejects.toThrow(CYCLE);
    await shop.buy(3);
    expect(warnings).toEqual([]);
  });

  it('are a warning once with lockOrder: warn', async () => {
    const { shop, refunds } = applicationOf(createTestLocks({ lockOrder: 'warn' }));
    for (let id = 0; id < 3; id += 1) {
      await shop.buy(id);
      await refunds.run(id);
    }
    expect(warnings).toEqual([
      `Locks are taken in two orders: ${CYCLE}. Concurrent calls wait for each other until waitMs has elapsed. ` +
        "Take them in one order everywhere, or together: using(['…', '…']).",
    ]);
  });

  it('are an event once', async () => {
    const events: LockOrderEvent[] = [];
    const onEvent = (event: unknown): void => void events.push(event as LockOrderEvent);
    lockOrderChannel.subscribe(onEvent);
    const { shop, refunds } = applicationOf(createTestLocks({ lockOrder: 'warn' }));
    await shop.buy(1);
    await refunds.run(1);
    await refunds.run(1);
    lockOrderChannel.unsubscribe(onEvent);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ instance: 'default', description: CYCLE });
  });

  it('are found in a cycle of three', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    await take(locks, 'b', 'c');
    await expect(take(locks, 'c', 'a')).rejects.toThrow(/a → b in .*, b → c in .*, c → a in /);
  });

  it('are shown with the line of a call of the service', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    const place = /^lock-order\.spec\.ts:\d+:\d+$/;
    expect(lockOrder().edges[0]?.places).toEqual([expect.stringMatching(place)]);
  });

  it('have several places', async () => {
    const locks = createTestLocks();
    await take(locks, 'goods:2', 'order:7');
    await withLocks(new Shop(locks), locks).buy(1);
    expect(lockOrder().edges).toHaveLength(1);
    expect(lockOrder().edges[0]?.places).toEqual([expect.stringContaining('lock-order.spec.ts'), 'Shop.buy']);
  });

  it('are found across module instances, by name', async () => {
    const store = new MemoryStore(new ManualClock());
    const locks = createTestLocks({ store });
    const { LockRuntime } = await import('../../lib/lock-runtime.js');
    const stock = LockRuntime.start({ store, checks: { lockOrder: 'error' } }, 'stock').service;
    await locks.using('goods:1', () => stock.using('goods:2', none));
    const back = stock.using('goods:2', () => locks.using('goods:1', none));
    await expect(back).rejects.toThrow(/goods → stock\/goods in .*, stock\/goods → goods in /);
  });

  it('are found with shared locks, which wait for writers that wait', async () => {
    const locks = createTestLocks();
    const shared = { mode: 'shared' } as const;
    await locks.using('a', shared, () => locks.using('b', shared, none));
    await expect(locks.using('b', shared, () => locks.using('a', shared, none))).rejects.toThrow(LockOrderError);
  });

  it('are found in a lock scope, which keeps a lock after its use', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    const scope = locks.scope(async () => {
      await locks.using('b', none);
      await (await locks.acquire('a')).release();
    });
    await expect(scope).rejects.toThrow(LockOrderError);
  });

  it('leave nothing held if the request of a list is an error', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    const list = locks.using(['b', 'c'], () => locks.using(['a', 'b', 'd'], none));
    await expect(list).rejects.toThrow(LockOrderError);
    expect(locks.local()).toEqual({ holds: [], waiting: [] });
    const free = await locks.tryAcquire('d');
    expect(await free?.release()).toBe(true);
  });

  it('are not reported with lockOrder: ignore of one request', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    await locks.using('b', () => locks.using('a', { lockOrder: 'off' }, none));
    expect(lockOrder().cycles).toEqual([]);
  });
});

describe('requests that cannot deadlock', () => {
  beforeEach(() => resetLockOrder());

  it('are not a step if they do not wait', async () => {
    const locks = createTestLocks();
    await take(locks, 'a', 'b');
    await locks.using('b', async () => (await locks.tryAcquire('a'))?.release());
    await locks.using('b', () => locks.using('a', { waitMs: 0 }, none));
    expect(lockOrder().edges).toHaveLength(1);
  });

  it('make a step to what is taken inside them', async () => {
    const locks = createTestLocks();
    await locks.using('a', { waitMs: 0 }, () => locks.using('b', none));
    await expect(take(locks, 'b', 'a')).rejects.toThrow(LockOrderError);
  });

  it('are not a step if the lock is held already', async () => {
    const locks = createTestLocks();
    await locks.using('a:1', () => locks.using('b:1', () => locks.using('a:1', none)));
    expect(lockOrder().edges).toHaveLength(1);
    expect(lockOrder().cycles).toEqual([]);
  });

  it('are not a step after the lock around them has ended', async () => {
    const locks = createTestLocks();
    let later = Promise.resolve();
    const ended = deferred();
    await locks.using('a', () => {
      later = ended.promise.then(() => locks.using('b', none));
    });
    ended.resolve();
    await later;
    expect(lockOrder().edges).toEqual([]);
  });

  it('are not a step of a candidate for a leadership', async () => {
    const locks = createTestLocks();
    const elected = deferred();
    await locks.using('a', async () => {
      const leadership = locks.lead('report', { onElected: () => elected.resolve() });
      await elected.promise;
      await leadership.close();
    });
    expect(lockOrder().edges).toEqual([]);
  });

  it('are lists, whatever their order', async () => {
    const locks = createTestLocks();
    await locks.using(['goods:1', 'goods:2', 'order:1'], none);
    await locks.using(['order:1', 'goods:2', 'goods:1'], none);
    await locks.using(['goods:10', 'goods:9'], none);
    await locks.using(['goods:{1}', 'order:{1}', 'goods:{2}', 'order:{2}'], none);
    expect(lockOrder().cycles).toEqual([]);
  });
});

describe('locks of one family', () => {
  beforeEach(() => resetLockOrder());

  it('may be taken along a tree with rising ids', async () => {
    const locks = createTestLocks();
    await locks.using('node:1', () => locks.using('node:2', () => locks.using('node:10', none)));
    expect(lockOrder().cycles).toEqual([]);
  });

  it('are a finding if their ids rise in one place and fall in another', async () => {
    const locks = createTestLocks();
    await take(locks, 'account:1', 'account:2');
    await expect(take(locks, 'account:2', 'account:1')).rejects.toThrow(
      /account → account with rising ids in .*, account → account with falling ids in /,
    );
  });

  it('may be in order by their numbers, or by their text', async () => {
    const locks = createTestLocks();
    await take(locks, 'byNumber:9', 'byNumber:10');
    await take(locks, 'byNumber:1', 'byNumber:2');
    await take(locks, 'byText:10', 'byText:9');
    await take(locks, 'byText:1', 'byText:2');
    expect(lockOrder().cycles).toEqual([]);
  });

  it('are a finding if a list takes them in the other order', async () => {
    const locks = createTestLocks();
    await locks.using(['account:1', 'account:2'], none);
    await expect(take(locks, 'account:2', 'account:1')).rejects.toThrow(LockOrderError);
  });
});

describe('the picture of the order', () => {
  beforeEach(() => resetLockOrder());

  it('is text for Mermaid', async () => {
    const locks = createTestLocks({ lockOrder: 'warn' });
    Logger.overrideLogger(false);
    await withLocks(new Shop(locks), locks).buy(1);
    await withLocks(new Refunds(withLocks(new Warehouse(), locks)), locks).run(1);
    expect(lockOrder().toMermaid()).toBe(
      [
        'flowchart LR',
        '  f0["goods"]',
        '  f1["order"]',
        '  f0 -->|"Shop.buy"| f1',
        '  f1 -->|"Refunds.run, by Warehouse.restock"| f0',
        '  linkStyle 0,1 stroke:#d00,color:#d00',
        '',
      ].join('\n'),
    );
  });

  it('shows no markup of a family', async () => {
    const locks = createTestLocks();
    await take(locks, '<b>"x\\:1', 'order');
    expect(lockOrder().toMermaid()).toContain('f0["#60;b#62;#34;x\\"]');
  });
});

describe('the memory of the order', () => {
  it('is bounded, whatever families clients name', () => {
    const graph = new OrderGraph(() => 'here');
    const lock = (family: string) => ({ instance: 'default', family, resource: family });
    for (let i = 0; i < 10_000; i += 1) {
      graph.add({ held: lock(`a${i}`), taken: lock(`b${i % 7}`), holder: `m${i}`, taker: undefined });
      graph.add({ held: lock('a1'), taken: lock('b1'), holder: `m${i}`, taker: undefined });
    }
    expect(graph.isComplete).toBe(false);
    const names = new Set(graph.edges.flatMap(({ held, taken }) => [held.family, taken.family]));
    expect(names.size).toBeLessThanOrEqual(256);
    expect(Math.max(...graph.edges.map(({ places }) => places.length))).toBeLessThanOrEqual(8);
  });

  it('has at most 2,048 edges and 64 cycles', () => {
    const graph = new OrderGraph(() => 'here');
    const lock = (family: number) => ({ instance: 'default', family: `f${family}`, resource: `f${family}` });
    for (let i = 0; i < 200; i += 1)
      for (let j = 0; j < 200; j += 1)
        if (i !== j) graph.add({ held: lock(i), taken: lock(j), holder: 'm', taker: 'm' });
    expect(graph.edges).toHaveLength(2_048);
    expect(graph.cycles.length).toBeLessThanOrEqual(64);
  });
});
