import { describe, expect, it } from '@jest/globals';
import { type LockInfo, Locked, type LockService } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { toLockInfo } from '../../lib/lock-info.js';
import { deferred } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

describe('the description of a lock', () => {
  it('has how long an exclusive holder has had it, and not for a shared holder', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    await locks.acquire('goods:1');
    await clock.advance(1_500);
    expect((await locks.inspect('goods:1'))?.heldForMs).toBeCloseTo(1_500, -1);
    expect((await listed(locks)).map(({ heldForMs = 0 }) => Math.round(heldForMs / 10))).toEqual([150]);
    await locks.acquire('goods:2', { mode: 'shared' });
    expect(await locks.inspect('goods:2')).toMatchObject({ isHeld: true, heldForMs: undefined });
  });

  it("does not have it after the server's clock was set back", () => {
    const state = { holder: 'api-1', remainingMs: 30_000, token: 7, since: 2_000 };
    const reader = { isOwn: () => false };
    const heldForMs = (now: number) => toLockInfo({ resource: 'a', key: 'a' }, state, { ...reader, now }).heldForMs;
    expect([heldForMs(1_999), heldForMs(2_000), heldForMs(2_500)]).toEqual([undefined, 0, 500]);
  });
});

const labels = (list: readonly { readonly label?: string | undefined }[] = []) => list.map(({ label }) => label);

/** Returns all locks. Calls `between` after each. */
async function listed(locks: LockService, between?: () => unknown): Promise<LockInfo[]> {
  const found = [];
  for await (const lock of locks.list()) {
    found.push(lock);
    await between?.();
  }
  return found;
}

describe('what a call is for', () => {
  it('is known of the holder, and of the waiters of the own instance', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const other = neighbour().locks;
    await locks.acquire('goods:300', { label: 'req-1' });
    for (const label of ['req-2', 'req-3']) void other.acquire('goods:300', { label, waitMs: Infinity });
    void locks.acquire('goods:300', { label: 'req-4', waitMs: Infinity });
    await clock.advance(10);
    const seen = await locks.inspect('goods:300');
    expect(seen).toMatchObject({ isOwn: true, label: 'req-1', method: undefined });
    expect(seen?.waiting).toEqual([expect.objectContaining({ isOwn: false, label: undefined })]);
    const elsewhere = await other.inspect('goods:300');
    expect(elsewhere).toMatchObject({ isOwn: false, label: 'req-1' });
    // In the queue they are one.
    expect(labels(elsewhere?.waiting)).toEqual(['req-2']);
  });

  it('is the method of a @Locked call', async () => {
    const inside = deferred();
    class Goods {
      @Locked('goods:<0>')
      buy(_id: number): Promise<void> {
        return inside.promise;
      }
    }
    const locks = createTestLocks({ clock: new ManualClock() });
    const buying = withLocks(new Goods(), locks).buy(300);
    expect(await locks.inspect('goods:300')).toMatchObject({ method: 'Goods.buy', label: undefined });
    inside.resolve();
    await buying;
  });

  it('is that of the present caller after a local handoff, and of the last one until minHoldMs', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:300');
    const first = locks.acquire('goods:300', { label: 'first' });
    const second = locks.acquire('goods:300', { label: 'second' });
    await clock.advance(1);
    // The handoff reserves tokens for local passes.
    await stranger.leave('{lock_goods}:300');
    await (await first).release();
    const passed = await locks.inspect('goods:300');
    expect([passed?.label, passed?.fencingToken]).toEqual(['second', (await first).fencingToken]);
    await (await second).release();
    await (await locks.acquire('goods:301', { label: 'closed', minHoldMs: 5_000 })).release();
    expect(await locks.inspect('goods:301')).toMatchObject({ isHeld: true, isOwn: false, label: 'closed' });
  });

  it('is that of the oldest of the readers that share one grant', async () => {
    const { clock, locks } = faultyLocks();
    for (const label of ['first', 'second']) {
      await locks.acquire('goods:300', { mode: 'shared', label });
      await clock.advance(10);
    }
    expect(await locks.inspect('goods:300')).toMatchObject({ mode: 'shared', label: 'first', others: [] });
  });

  it('is in a list, even in one whose reader takes long', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    const names = ['goods:1', 'goods:2', 'goods:3'];
    const holds = await Promise.all(names.map((name) => locks.acquire(name, { label: `old ${name}` })));
    const found = await listed(locks, async () => {
      // The others have other callers by now.
      for (const lock of holds.splice(0)) {
        await lock.release();
        await locks.acquire(lock.resource, { label: `new ${lock.resource}` });
      }
      await clock.advance(300);
    });
    expect(labels(found).map((label) => label?.split(' ', 1)[0])).toEqual(['old', 'new', 'new']);
  });
});
