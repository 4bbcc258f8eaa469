import { LockLostError } from '../errors.js';
import { runInside } from '../async-context.js';
import type { Hold } from './lock.js';

/** What the caller gets when the lock was lost while the work ran. */
export type OnLost = 'throw' | 'ignore';

/**
 * Runs `fn` under a lock and releases it. The release never hides what `fn` answered or threw; a loss does, if `onLost`
 * says so.
 */
export async function runUnder<T, H extends Hold>(
  lock: H,
  onLost: OnLost,
  fn: (lock: H) => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await runInside({ lock }, () => fn(lock));
  } catch (error) {
    await settle(lock, onLost, error);
    throw error;
  }
  await settle(lock, onLost);
  return result;
}

/**
 * Releases after the work, which has failed with `workError`, if at all.
 *
 * @throws LockLostError if the work was not under the lock to its end, and `onLost` is `throw`.
 */
export async function settle(lock: Hold, onLost: OnLost, workError?: unknown): Promise<void> {
  lock.noticeExpiry();
  const { loss } = lock;
  // A release that failed is repeated behind the caller's back.
  await lock.release().catch(() => undefined);
  if (loss === undefined || onLost === 'ignore') return;
  const { message, resource, elapsedMs } = loss;
  throw new LockLostError(message, { resource, elapsedMs, cause: workError });
}
