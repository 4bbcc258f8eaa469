import { describe, expect, it } from '@jest/globals';
import type { LockInfo } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { toLockInfo } from '../../lib/lock-info.js';

describe('the description of a lock', () => {
  it('has for how long an exclusive holder has had it', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    await locks.acquire('goods:1');
    await clock.advance(1_500);
    expect((await locks.inspect('goods:1'))?.heldForMs).toBeCloseTo(1_500, -1);
    const listed: LockInfo[] = [];
    for await (const lock of locks.list()) listed.push(lock);
    expect(listed.map(({ heldForMs = 0 }) => Math.round(heldForMs / 10))).toEqual([150]);
  });

  it('does not have it for a shared holder', async () => {
    const locks = createTestLocks({ clock: new ManualClock() });
    await locks.acquire('goods:1', { mode: 'shared' });
    const info = await locks.inspect('goods:1');
    expect([info?.isHeld, info?.heldForMs]).toEqual([true, undefined]);
  });

  it("does not have it after the server's clock was set back", () => {
    const state = { holder: 'api-1', remainingMs: 30_000, token: 7, since: 2_000 };
    const heldForMs = (now: number) => toLockInfo({ resource: 'a', key: 'a' }, state, () => false, now).heldForMs;
    expect([heldForMs(1_999), heldForMs(2_000), heldForMs(2_500)]).toEqual([undefined, 0, 500]);
  });
});
