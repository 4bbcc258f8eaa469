import { describe, expect, it } from '@jest/globals';
import { MOST_LOCKS, type Row, type Rows, readRows } from '../../../lib/board/board-rows.js';
import { boardLock, boardWaiters } from '../../support/board-source.js';

const read = (locks: Parameters<typeof readRows>[0], before?: Rows, now = 0): Promise<Rows> =>
  readRows(locks, { before, now: () => now, isOver: () => false });
const rowOf = (rows: Rows, resource: string): Row => rows.byKey.get(`{lock_}${resource}`) as Row;
const shown = (rows: readonly Row[]): string[] => rows.map(({ resource }) => resource);

describe('the rows of the board', () => {
  it('show a lock that others wait for', async () => {
    const rows = await read([boardLock('goods:300', { waiting: boardWaiters(2) })]);
    expect(rowOf(rows, 'goods:300')).toMatchObject({
      family: 'goods',
      holders: [{ identity: 'api-1' }],
      token: 7,
      waiting: [{ identity: 'api-2' }, { identity: 'api-3' }],
      waiterCount: 2,
    });
    expect([rows.held, rows.waiting, rows.total]).toEqual([1, 2, 1]);
  });

  it('show a lock that nobody holds yet', async () => {
    const free = { holder: undefined, identity: undefined, expiresInMs: 0, fencingToken: undefined };
    const rows = await read([boardLock('goods:300', { ...free, waiting: boardWaiters(1) })]);
    expect(rowOf(rows, 'goods:300')).toMatchObject({
      holders: [],
      holderCount: 0,
      since: undefined,
      endsAt: undefined,
    });
    expect([rows.held, rows.waiting]).toEqual([0, 1]);
  });

  it('stay equal if only the times of the replies differ', async () => {
    const before = await read([boardLock('goods:300')], undefined, 0);
    const after = await read([boardLock('goods:300', { expiresInMs: 28_980 })], before, 1_000);
    expect(rowOf(after, 'goods:300')).toEqual(rowOf(before, 'goods:300'));
  });

  it('count the hold from when the holder was first seen, unless the store knows it', async () => {
    const before = await read([boardLock('a'), boardLock('b', { heldForMs: 400 })], undefined, 1_000);
    const after = await read([boardLock('a'), boardLock('b', { heldForMs: 1_400 })], before, 2_000);
    expect([rowOf(after, 'a').since, rowOf(after, 'a').atLeast]).toEqual([1_000, true]);
    expect([rowOf(after, 'b').since, rowOf(after, 'b').atLeast]).toEqual([600, false]);
    const next = await read([boardLock('a', { fencingToken: 8 })], after, 3_000);
    expect(rowOf(next, 'a').since).toBe(3_000);
  });

  it('keep the longest lease of a hold', async () => {
    const before = await read([boardLock('a', { expiresInMs: 30_000 })]);
    const after = await read([boardLock('a', { expiresInMs: 12_000 })], before, 18_000);
    expect(rowOf(after, 'a')).toMatchObject({ leaseMs: 30_000, endsAt: 30_000 });
    const forever = await read([boardLock('a', { expiresInMs: Infinity })], after, 19_000);
    expect(rowOf(forever, 'a').endsAt).toBe(Infinity);
  });

  it('keep ten holders and twenty waiters, and count the others', async () => {
    const others = Array.from({ length: 500 }, (_, i) => ({ ...boardLock(''), holder: `other-${i}` }));
    const rows = await read([boardLock('a', { mode: 'shared', others, waiting: boardWaiters(500) })]);
    const { holders, holderCount, waiting, waiterCount } = rowOf(rows, 'a');
    expect([holders.length, holderCount, waiting.length, waiterCount]).toEqual([10, 501, 20, 500]);
  });

  it('keep the start of a value that another system wrote', async () => {
    const rows = await read([boardLock('a', { holder: 'x'.repeat(1_000_000), identity: undefined })]);
    expect(rowOf(rows, 'a').holders[0]?.id).toHaveLength(300);
  });

  it('keep the wire versions of instances of another one', async () => {
    const waiting = boardWaiters(1).map((waiter) => ({ ...waiter, wireVersion: 2 }));
    const others = [{ ...boardLock(''), wireVersion: 3 }];
    const rows = await read([boardLock('a', { wireVersion: 2, others, waiting })]);
    const { holders, waiting: shownWaiters } = rowOf(rows, 'a');
    expect([...holders, ...shownWaiters].map(({ wireVersion }) => wireVersion)).toEqual([2, 3, 2]);
  });

  it('show the callers that wait inside this instance', async () => {
    const callers = { count: 3, waitedMs: 400, method: 'GoodsController.buy', label: undefined };
    const locks = [boardLock('a', { callers }), boardLock('b', { waiting: boardWaiters(2) })];
    const before = await read(locks, undefined, 1_000);
    expect(rowOf(before, 'a')).toMatchObject({ callers: { count: 3, since: 600, method: 'GoodsController.buy' } });
    expect(shown(before.view('', 'waiters'))).toEqual(['a', 'b']);
    const later = { ...callers, waitedMs: 1_390 };
    const after = await read([boardLock('a', { callers: later, expiresInMs: 29_000 })], before, 2_000);
    expect(rowOf(after, 'a').callers).toEqual(rowOf(before, 'a').callers);
  });

  it('end a read that nobody needs', async () => {
    let isOver = false;
    let ended = false;
    async function* endless() {
      try {
        for (let i = 0; ; i++) {
          isOver = i === 3;
          yield boardLock(`goods:${i}`);
        }
      } finally {
        ended = true;
      }
    }
    const rows = await readRows(endless(), { before: undefined, now: () => 0, isOver: () => isOver });
    expect([rows.total, ended]).toEqual([3, true]);
  });

  it('stop at the most locks that the board keeps', async () => {
    async function* endless() {
      for (let i = 0; ; i++) yield boardLock(`goods:${i}`);
    }
    const rows = await read(endless());
    expect([rows.total, rows.isTruncated]).toEqual([MOST_LOCKS, true]);
  });

  it('are sorted and searched', async () => {
    const rows = await read([
      boardLock('b:1', { heldForMs: 100, waiting: boardWaiters(1) }),
      boardLock('a:1', { heldForMs: 300 }),
      boardLock('c:1', { heldForMs: 200, identity: 'Worker-9' }),
    ]);
    expect(shown(rows.view('', 'waiters'))).toEqual(['b:1', 'a:1', 'c:1']);
    expect(shown(rows.view('', 'held'))).toEqual(['a:1', 'c:1', 'b:1']);
    expect(shown(rows.view('', 'resource'))).toEqual(['a:1', 'b:1', 'c:1']);
    expect(shown(rows.view('B:', 'resource'))).toEqual(['b:1']);
    expect(shown(rows.view('worker', 'resource'))).toEqual(['c:1']);
    expect(shown(rows.view('api-2', 'resource'))).toEqual(['b:1']);
    expect(rows.view('', 'held')).toBe(rows.view('', 'held'));
  });
});
