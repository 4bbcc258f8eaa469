import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { lockChannels } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { type BoardQuery, LockBoard } from '../../../lib/board/lock-board.js';
import { deferred, outcome } from '../../support/async.js';
import { boardLock, boardWaiters, FakeSource } from '../../support/board-source.js';

Logger.overrideLogger(false);

interface State {
  readonly version: string;
  readonly nextMs: number;
  readonly locksHash: string;
  readonly locks?: readonly { readonly resource: string; readonly expiresInMs: number; readonly heldMs: number }[];
  readonly lostHash: string;
  readonly lost?: readonly object[];
  readonly total: number;
  readonly found: number;
  readonly page: number;
  readonly pages: number;
  readonly isKnown?: boolean;
  readonly problem?: string;
  readonly servers?: { readonly problem?: string };
}

const ALL: BoardQuery = { search: '', sort: 'resource', page: 0, after: undefined, locks: undefined, lost: undefined };

let clock: ManualClock;
let source: FakeSource;
let board: LockBoard;
beforeEach(() => {
  clock = new ManualClock();
  source = new FakeSource();
  board = new LockBoard('default', source, clock);
  board.open();
});
afterEach(() => board.close());

const ask = async (query: Partial<BoardQuery> = {}): Promise<State> =>
  JSON.parse(JSON.stringify(await board.state({ ...ALL, ...query }))) as State;

describe('the board', () => {
  it('reads the locks once for all viewers of a second', async () => {
    source.locks = [boardLock('goods:1')];
    const states = await Promise.all([ask(), ask(), ask({ search: 'nothing' })]);
    expect(states.map(({ found }) => found)).toEqual([1, 1, 0]);
    await clock.advance(400);
    expect((await ask()).total).toBe(1);
    expect([source.reads, source.pings]).toEqual([1, 1]);
    expect((await ask()).nextMs).toBe(350);
  });

  it('reads nothing while nobody looks', async () => {
    await ask();
    await clock.advance(3_600_000);
    expect(source.reads).toBe(1);
    await ask();
    expect(source.reads).toBe(2);
  });

  it('replies to a viewer that is up to date after the next read', async () => {
    const { version } = await ask();
    source.locks = [boardLock('goods:1')];
    const next = outcome(ask({ after: version }));
    await clock.advance(749);
    expect(next).toEqual({});
    await clock.advance(1);
    expect(next.value).toMatchObject({ total: 1, found: 1 });
    expect(next.value?.version).not.toBe(version);
  });

  it('sends fifty locks of ten thousand, and nothing that the viewer has', async () => {
    source.locks = Array.from({ length: 10_000 }, (_, i) => boardLock(`goods:${String(i).padStart(5, '0')}`));
    const first = await ask();
    expect(first).toMatchObject({ total: 10_000, found: 10_000, page: 0, pages: 200 });
    expect(first.locks).toHaveLength(50);
    expect((await ask({ locks: first.locksHash })).locks).toBeUndefined();
    const last = await ask({ page: 500 });
    expect(last.page).toBe(199);
    expect(last.locks?.at(-1)?.resource).toBe('goods:09999');
    expect((await ask({ search: '0777' })).found).toBe(11);
    expect(source.reads).toBe(1);
  });

  it('counts times from the reply', async () => {
    source.locks = [boardLock('goods:1', { expiresInMs: 30_000, heldForMs: 1_000 })];
    await ask();
    await clock.advance(600);
    expect((await ask()).locks).toEqual([expect.objectContaining({ expiresInMs: 29_400, heldMs: 1_600 })]);
  });

  it('shows the locks of this instance if it cannot read all', async () => {
    source.problem = new Error('NOPERM scan');
    source.own = [boardLock('goods:1')];
    expect(await ask()).toMatchObject({
      isKnown: true,
      total: 1,
      problem: 'NOPERM scan',
      servers: { problem: 'NOPERM scan' },
    });
  });

  it('knows the times of locks of before an outage', async () => {
    source.locks = [boardLock('goods:1', { expiresInMs: 30_000 })];
    await ask();
    await clock.advance(1_000);
    source.problem = new Error('the connection is closed');
    expect((await ask()).total).toBe(0);
    await clock.advance(1_000);
    source.problem = undefined;
    source.locks = [boardLock('goods:1', { expiresInMs: 28_000 })];
    expect((await ask()).locks).toEqual([expect.objectContaining({ heldMs: 2_000, leaseMs: 30_000 })]);
  });

  it('counts the waits of callers from the reply', async () => {
    source.locks = [boardLock('a', { callers: { count: 2, waitedMs: 500, method: 'A.b', label: 'req-1' } })];
    await ask();
    await clock.advance(100);
    const callers = { count: 2, waitedMs: 600, method: 'A.b', label: 'req-1' };
    expect((await ask()).locks).toEqual([expect.objectContaining({ callers })]);
  });

  it('shows the state without locks if a read takes too long', async () => {
    source.list = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) });
    const state = outcome(ask());
    await clock.advance(2_500);
    expect(state.value).toMatchObject({ instance: { identity: 'api-1' } });
    expect(state.value?.isKnown).toBeUndefined();
  });

  it('sends lost locks once', async () => {
    lockChannels.lost.publish({ resource: 'goods:1', key: 'k', instance: 'default', heldMs: 12 });
    const { lost, lostHash } = await ask();
    expect(lost).toEqual([expect.objectContaining({ resource: 'goods:1', heldMs: 12 })]);
    expect((await ask({ lost: lostHash })).lost).toBeUndefined();
  });

  it('replies at once when the application ends', async () => {
    const { version } = await ask();
    const waiting = outcome(ask({ after: version }));
    await clock.advance(10);
    board.close();
    await clock.advance(0);
    expect(waiting).toHaveProperty('value');
  });

  it('ends a read when the application ends', async () => {
    const more = deferred();
    let ended = false;
    source.list = async function* () {
      try {
        yield boardLock('goods:1');
        await more.promise;
        yield boardLock('goods:2');
        yield boardLock('goods:3');
      } finally {
        ended = true;
      }
    };
    const reading = outcome(ask());
    await clock.advance(0);
    board.close();
    more.resolve();
    await clock.advance(0);
    expect([ended, reading.value?.total]).toEqual([true, 1]);
  });

  it('releases the hold that the viewer has seen', async () => {
    source.locks = [boardLock('goods:1', { waiting: boardWaiters(1) })];
    const caller = 'alice';
    source.exclusive.add('goods:1');
    expect(await board.release({ resource: 'goods:1', token: 7, caller, isShared: false })).toBe(true);
    expect(await board.release({ resource: 'shared:1', token: undefined, caller, isShared: true })).toBe(true);
    // An exclusive hold has followed the shared ones that the viewer has seen.
    expect(await board.release({ resource: 'goods:1', token: undefined, caller, isShared: true })).toBe(false);
    expect(source.released).toEqual([
      ['goods:1', 7],
      ['shared:1', undefined],
    ]);
  });
});
