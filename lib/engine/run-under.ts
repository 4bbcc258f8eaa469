import { LockLostError } from '../common/errors.js';
import { runWork, workChannel } from '../events/tracing.js';
import { runInHold } from './call-context.js';
import { endOf, type Hold } from './hold.js';
import type { Lock } from './lock.js';
import type { OnLost } from './options.js';

/**
 * Runs `fn` under a lock, then releases the lock. Returns what `fn` returns. A failed release never replaces the result
 * or the error of `fn`.
 *
 * @param acquired the lock, or a promise of it. If the promise rejects, `fn` does not run.
 * @throws LockLostError if the lock was lost before its release and `onLost` is `throw`. Its cause is the error of
 * `fn`.
 */
export async function runUnder<T, H extends Hold>(
  acquired: H | Promise<H>,
  onLost: OnLost,
  fn: (lock: H) => T | Promise<T>,
): Promise<T> {
  const lock = isHold(acquired) ? acquired : await acquired;
  let result: T;
  try {
    result = await runInHold(lock, () => (workChannel.hasSubscribers ? runWork(lock.locks, () => fn(lock)) : fn(lock)));
  } catch (error) {
    await settle(lock, onLost, error);
    throw error;
  }
  const expiry = lock.expire();
  if (expiry === undefined && lock.loss === undefined) {
    // The usual end, without the promises of `settle`.
    const released = lock.release();
    try {
      if (lock.awaitsRelease) await released;
      else released.catch(() => undefined);
    } catch {
      // The releaser repeats the release.
    }
  } else {
    await expiry;
    await settle(lock, onLost);
  }
  return result;
}

/**
 * Releases a lock after the work under it.
 *
 * @param workError the error of the work. Undefined if it succeeded.
 * @throws LockLostError if the lock was lost before the work ended and `onLost` is `throw`. Its cause is the error of
 * the work. Does not throw if that error is also a `LockLostError`.
 */
export async function settle(lock: Hold, onLost: OnLost, workError?: unknown): Promise<void> {
  const expiry = lock.expire();
  if (expiry !== undefined) await expiry;
  const { loss } = lock;
  await endOf(lock);
  if (loss === undefined || onLost === 'ignore') return;
  // The caller throws that error.
  if (workError instanceof LockLostError) return;
  const { message, resource, elapsedMs } = loss;
  throw new LockLostError(message, { resource, elapsedMs, cause: workError });
}

/**
 * Runs work under a lock, and marks the lock as done for `onceMs` if the work ends without an error. The end of the
 * lock then closes the key.
 */
export async function runOnce<T>(lock: Lock, onceMs: number, work: () => T | Promise<T>): Promise<T> {
  try {
    const result = await work();
    lock.markDone(onceMs);
    return result;
  } catch (error) {
    // A nested call may have marked it.
    lock.unmarkDone();
    throw error;
  }
}

function isHold<H extends Hold>(acquired: H | Promise<H>): acquired is H {
  return 'release' in acquired;
}
