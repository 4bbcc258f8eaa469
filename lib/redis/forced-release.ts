import type { Clock } from '../clock/clock.js';
import { unavailableBecause } from './redis-errors.js';

/**
 * Runs a release by force that needs several requests. `checkTime` throws after `requestTimeoutMs`, when its caller has
 * an error. What is left is not requested then.
 *
 * @throws LockUnavailableError if a request fails. The lock may still have been released.
 */
export async function forcedRelease(
  clock: Clock,
  requestTimeoutMs: number,
  release: (checkTime: () => void) => Promise<boolean>,
): Promise<boolean> {
  const startedAt = clock.now();
  const checkTime = (): void => {
    if (clock.now() - startedAt > requestTimeoutMs) throw new Error('the reply came too late');
  };
  return release(checkTime).catch((error: unknown) => {
    throw unavailableBecause(error, 'a release by force');
  });
}
