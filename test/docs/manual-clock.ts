import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';

export async function lostAfterItsLease(): Promise<boolean> {
  const clock = new ManualClock();
  const locks = createTestLocks({ clock });
  const lock = await locks.acquire('goods:300', { ttlMs: 10_000, renew: false });
  await clock.advance(10_000);
  return lock.signal.aborted;
}
