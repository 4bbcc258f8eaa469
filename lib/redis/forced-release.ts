import { LockConfigError } from '../common/errors.js';
import { type Clock, scheduleTimeout } from '../clock/clock.js';
import { unavailableBecause } from './redis-errors.js';

/**
 * Runs a release by force that needs several requests. After `requestTimeoutMs` its caller has an error, and
 * `checkTime` throws. So the lock of a later holder is not released. A reply that waits while this process stands still
 * is not late.
 *
 * @throws LockUnavailableError if a request fails. The lock may still have been released.
 */
export async function forcedRelease(
  clock: Clock,
  requestTimeoutMs: number,
  release: (checkTime: () => void) => Promise<boolean>,
): Promise<boolean> {
  let isLate = false;
  const timer = scheduleTimeout(clock, requestTimeoutMs, () => (isLate = true));
  try {
    return await release(() => {
      if (isLate) throw new Error('the reply came too late');
    });
  } catch (error) {
    if (error instanceof LockConfigError) throw error;
    throw unavailableBecause(error, 'a release by force');
  } finally {
    timer.cancel();
  }
}
