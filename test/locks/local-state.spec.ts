import { describe, expect, it } from '@jest/globals';
import { Locked, LockTimeoutError } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, withLocks } from 'nestjs-redis-lock/testing';
import { faultyLocks, KEY, outcome } from '../support/locks.js';

describe('local()', () => {
  it('lists two callers of a lock: the one that holds it and the one that waits', async () => {
    const { clock, locks, store } = faultyLocks();
    const held = await locks.acquire('goods:300', { label: 'first' });
    await clock.advance(100);
    const waiting = locks.acquire('goods:300', { label: 'second' });
    await clock.advance(20);
    const requests = store.acquires.length;
    const call = {
      id: expect.stringMatching(/-\d+$/),
      resource: 'goods:300',
      family: 'goods',
      key: '{lock_goods}:300',
      mode: 'exclusive',
      permits: undefined,
      method: undefined,
    };
    const state = locks.local();
    expect(state).toEqual({
      holds: [
        {
          ...call,
          label: 'first',
          fencingToken: held.fencingToken,
          heldMs: 120,
          expiresInMs: held.expiresInMs,
          holds: 1,
        },
      ],
      waiting: [{ ...call, label: 'second', waitedMs: 20 }],
    });
    expect(store.acquires).toHaveLength(requests);

    await held.release();
    await waiting;
    expect(locks.local().waiting).toEqual([]);
    expect(locks.local().holds).toEqual([expect.objectContaining({ id: state.waiting[0]?.id, label: 'second' })]);
    await (await waiting).release();
    expect(locks.local()).toEqual({ holds: [], waiting: [] });
  });

  it('counts nested holds at their lock, and a scope as none', async () => {
    const locks = createTestLocks({ clock: new ManualClock() });
    const uses: (number | undefined)[] = [];
    const look = (): void => void uses.push(locks.local().holds[0]?.holds);
    await locks.scope(async () => {
      await locks.using('goods:300', async () => {
        await locks.using('goods:300', look);
        look();
      });
      look();
    });
    look();
    expect(uses).toEqual([2, 1, 0, undefined]);
  });

  it('lists each of several locks, readers, permits and what waits for a reply', async () => {
    const { clock, locks, store } = faultyLocks();
    const several = await locks.acquire(['account:1', 'account:2']);
    const reader = await locks.acquire('page:1', { mode: 'shared' });
    const permit = await locks.acquire('printer:1', { permits: 2 });
    store.hold('acquire');
    const both = locks.acquire(['bill:1', 'bill:2']);
    await clock.advance(30);
    const { holds, waiting } = locks.local();
    expect(holds.map(({ resource, mode, permits }) => [resource, mode, permits])).toEqual([
      ['account:1', 'exclusive', undefined],
      ['account:2', 'exclusive', undefined],
      ['page:1', 'shared', undefined],
      ['printer:1', 'shared', 2],
    ]);
    expect(new Set([...holds, ...waiting].map(({ id }) => id)).size).toBe(6);
    expect(waiting.map(({ resource, waitedMs }) => [resource, waitedMs])).toEqual([
      ['bill:1', 30],
      ['bill:2', 30],
    ]);
    store.deliver('acquire');
    await Promise.all([several, reader, permit, await both].map((lock) => lock.release()));
    expect(locks.local()).toEqual({ holds: [], waiting: [] });
  });

  it('counts those that wait for a lock in every mode', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take(KEY);
    const modes = [{}, { mode: 'shared' }, { mode: 'shared' }, { permits: 2 }] as const;
    const waiting = modes.map((mode) => outcome(locks.acquire('goods:300', { ...mode, waitMs: 1_000 })));
    await clock.advance(0);
    expect((await locks.inspect('goods:300'))?.waitingHere).toBe(4);
    await clock.advance(1_000);
    expect(waiting.every(({ error }) => error instanceof LockTimeoutError)).toBe(true);
    expect((await locks.inspect('goods:300'))?.waitingHere).toBe(0);
  });

  it('names the method, the label and the family of @Locked', async () => {
    const locks = createTestLocks();
    const seen: unknown[] = [];
    const look = (): void => {
      const [{ method, label, family } = { method: '', label: '', family: '' }] = locks.local().holds;
      seen.push([method, label, family]);
    };
    class Goods {
      private readonly prefix = 'request';

      @Locked('goods:<0>', { label: 'buying' })
      async buy(_id: number) {
        look();
      }

      @Locked('<0>:goods:<1>', {
        label(this: Goods, tenant: string, id: number) {
          return `${this.prefix} ${id} of ${tenant}`;
        },
      })
      async sell(_tenant: string, _id: number) {
        look();
      }

      @Locked((id: number) => `stock:${id}`, { label: () => undefined })
      async count(_id: number) {
        look();
      }

      @Locked('goods:<0>', { label: () => Promise.reject(new Error('too late')) as never })
      async fail(_id: number) {
        look();
      }
    }
    const goods = withLocks(new Goods(), locks);
    await goods.buy(1);
    await goods.sell('acme', 2);
    await goods.count(3);
    expect(seen).toEqual([
      ['Goods.buy', 'buying', 'goods'],
      ['Goods.sell', 'request 2 of acme', '<0>:goods:<1>'],
      ['Goods.count', undefined, 'stock'],
    ]);
    await expect(goods.fail(4)).rejects.toThrow(
      'Goods.fail: the result of the label function is a Promise; expected a string.',
    );
  });

  it('refuses a label of another kind at decoration, and in the options of the module', () => {
    expect(() => {
      class Goods {
        @Locked('goods:<0>', { label: 7 as never })
        async buy(_id: number) {}
      }
      return Goods;
    }).toThrow('@Locked of Goods.buy: label is 7; expected a string or a function.');
    expect(() => createTestLocks({ label: 'every call' } as never)).toThrow('there is no option label');
  });
});
