import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LocalHold, LocalLockState, LocalWaiter, LockService } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { type BoardLock, LockServiceSource } from '../../../lib/board/board-source.js';
import { boardLock } from '../../support/board-source.js';

const call = (resource: string) => ({
  id: `call-${resource}`,
  resource,
  family: resource,
  key: `{lock_}${resource}`,
  mode: 'exclusive' as const,
  permits: undefined,
  method: 'StockService.buy',
  label: 'req-1',
});
const hold = (resource: string, changes: Partial<LocalHold> = {}): LocalHold => {
  return { ...call(resource), fencingToken: 7, heldMs: 1_234, expiresInMs: 20_000, holds: 1, ...changes };
};
const waiter = (resource: string, changes: Partial<LocalWaiter> = {}): LocalWaiter => {
  return { ...call(resource), waitedMs: 300, ...changes };
};
const own = (resource: string, changes: Partial<BoardLock> = {}) => ({ ...boardLock(resource, changes), isOwn: true });

let clock: ManualClock;
beforeEach(() => {
  clock = new ManualClock();
});

/** Returns the source of a service that lists these locks. */
function sourceOf(locks: readonly BoardLock[], state: Partial<LocalLockState> = {}): LockServiceSource {
  const service = {
    async *list() {
      for (const lock of locks) {
        await clock.advance(100);
        yield lock;
      }
    },
    local: () => ({ holds: [], waiting: [], ...state }),
  };
  return new LockServiceSource(service as unknown as LockService, clock);
}

async function listed(source: LockServiceSource): Promise<BoardLock[]> {
  const found = [];
  for await (const lock of source.list()) found.push(lock);
  return found;
}

describe('the source of the board', () => {
  it('adds what only the holder knows to the holds of this instance', async () => {
    const holds = [hold('goods:1'), hold('goods:2')];
    const known = { method: 'StockService.buy', label: 'req-1' };
    expect(await listed(sourceOf([own('goods:1'), boardLock('goods:2')], { holds }))).toEqual([
      { ...own('goods:1'), ...known, heldForMs: 1_334 },
      boardLock('goods:2'),
    ]);
  });

  it('knows a lock that was passed on inside the instance, and no later grant', async () => {
    const holds = [hold('a', { fencingToken: 9 }), hold('b', { fencingToken: 7 })];
    const locks = [own('a', { fencingToken: 7 }), own('b', { fencingToken: 9 })];
    expect((await listed(sourceOf(locks, { holds }))).map(({ method }) => method)).toEqual([
      'StockService.buy',
      undefined,
    ]);
  });

  it('counts the callers that wait inside the instance', async () => {
    const waiting = [waiter('a', { waitedMs: 900, label: undefined }), waiter('b'), waiter('a')];
    const found = await listed(sourceOf([boardLock('a'), boardLock('c')], { waiting }));
    expect(found.map(({ callers }) => callers)).toEqual([
      { count: 2, waitedMs: 1_000, method: 'StockService.buy', label: undefined },
      undefined,
    ]);
  });

  it('returns what the instance holds and waits for without the list', () => {
    const shared = { mode: 'shared' as const, fencingToken: undefined };
    const holds = [hold('a', shared), hold('a', { ...shared, id: 'other' }), hold('b')];
    expect(sourceOf([], { holds, waiting: [waiter('b'), waiter('c')] }).local()).toEqual([
      expect.objectContaining({
        resource: 'a',
        mode: 'shared',
        holder: 'call-a',
        others: [{ holder: 'other', identity: undefined }],
        callers: undefined,
      }),
      expect.objectContaining({ resource: 'b', holder: 'call-b', heldForMs: 1_234, callers: expect.anything() }),
      expect.objectContaining({ resource: 'c', holder: undefined, mode: undefined, callers: expect.anything() }),
    ]);
  });

  it('rejects if a mock in the place of the service does not have the method', async () => {
    const source = new LockServiceSource({} as LockService, clock);
    await expect(listed(source)).rejects.toThrow('local');
    await expect(source.ping()).rejects.toThrow('ping');
    await expect(source.forceRelease('a', {})).rejects.toThrow('forceRelease');
  });

  it('reads a real service', async () => {
    const locks = createTestLocks({ identity: 'api-1' });
    const source = new LockServiceSource(locks, clock);
    const lock = await locks.acquire('goods:1', { label: 'req-7' });
    const [found] = await listed(source);
    expect(found).toMatchObject({ resource: 'goods:1', identity: 'api-1', label: 'req-7', waiting: [] });
    expect(found?.fencingToken).toBe(lock.fencingToken);
    expect(source.local()).toEqual([expect.objectContaining({ resource: 'goods:1', identity: 'api-1' })]);
    expect(await source.ping()).toMatchObject({ isUp: true });
    expect(await source.forceRelease('goods:1', { ifToken: (lock.fencingToken ?? 0) + 1 })).toBe(false);
    expect(await source.forceRelease('goods:1', { ifToken: lock.fencingToken })).toBe(true);
    expect(await listed(source)).toEqual([]);
  });
});
