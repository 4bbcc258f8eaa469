import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-redis-lock';
import { LockServiceSource } from '../../../lib/board/board-source.js';
import { boardLock } from '../../support/board-source.js';

const hold = (resource: string, changes: object = {}) => ({
  id: `call-${resource}`,
  resource,
  key: `{lock_}${resource}`,
  mode: 'exclusive',
  permits: undefined,
  fencingToken: 7,
  heldMs: 1_234,
  expiresInMs: 20_000,
  method: 'StockService.buy',
  label: 'req-1',
  ...changes,
});

async function listed(locks: object) {
  const found = [];
  for await (const lock of new LockServiceSource(locks as LockService).list()) found.push(lock);
  return found;
}

describe('the source of the board', () => {
  it('adds what only the holder knows to the holds of this instance', async () => {
    async function* list() {
      yield boardLock('goods:1', { isOwn: true });
      yield boardLock('goods:2', { isOwn: false });
    }
    const local = () => ({ holds: [hold('goods:1'), hold('goods:2')] });
    expect(await listed({ list, local })).toEqual([
      { ...boardLock('goods:1', { isOwn: true }), heldForMs: 1_234, method: 'StockService.buy', label: 'req-1' },
      boardLock('goods:2', { isOwn: false }),
    ]);
  });

  it('joins the holds of a shared lock', () => {
    const holds = [hold('a', { mode: 'shared' }), hold('a', { mode: 'shared', id: 'other' }), hold('b')];
    const locks = [...new LockServiceSource({ local: () => ({ holds }) } as unknown as LockService).local()];
    expect(locks).toEqual([
      expect.objectContaining({ resource: 'a', holder: 'call-a', others: [{ holder: 'other', identity: undefined }] }),
      expect.objectContaining({ resource: 'b', holder: 'call-b', others: [], heldForMs: 1_234 }),
    ]);
  });

  it('names the method that a mock does not have', async () => {
    const source = new LockServiceSource({} as LockService);
    await expect(listed({})).rejects.toThrow('has no method list()');
    await expect(source.ping()).rejects.toThrow('has no method ping()');
    await expect(source.forceRelease('a', {})).rejects.toThrow('has no method forceRelease()');
    expect(() => source.local()).toThrow('has no method local()');
  });
});
