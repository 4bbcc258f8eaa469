import { LockConfigError, LockLostError } from '../common/errors.js';
import { runWork, workChannel } from '../events/tracing.js';
import { runInHold } from './call-context.js';
import type { Lock } from './lock.js';
import type { OnLost } from './options.js';
import type { Parts } from './lock-engine.js';

/** What work runs under: one lock, several that were acquired together, or a lock scope. */
export interface Hold {
  readonly locks: readonly Lock[];
  /** Whether the end of the work waits for the replies to the releases. */
  readonly awaitsRelease: boolean;
  /** Why one of the locks was lost. Undefined if none was lost. */
  readonly loss: LockLostError | undefined;
  /** Whether all locks have ended. */
  readonly isOver: boolean;
  /**
   * Declares locks lost whose deadlines have passed. First reads the replies that have arrived, because locks may have
   * been renewed while work blocked the event loop. Returns undefined if there is nothing to wait for.
   */
  expire(): Promise<void> | undefined;
  /** Aborts the signal. The locks stay held. */
  abort(reason: unknown): void;
  /** Returns a lock of that engine and key that has not ended. Without a key, the first lock of that engine. */
  find(parts: Parts, key?: string): Lock | undefined;
  /** Ends all locks. A lock scope does not reject. The others may reject if the store sends no reply. */
  release(): Promise<unknown>;
}

/** See {@link Hold.expire}. */
export function expireAll(locks: readonly Lock[]): Promise<void> | undefined {
  const waits = locks.map((lock) => lock.expire()).filter((wait) => wait !== undefined);
  return waits.length === 0 ? undefined : Promise.all(waits).then(() => undefined);
}

/**
 * Releases a hold after its work. Ignores a store that sends no reply, because the releaser repeats the release.
 * Returns undefined if the end of the work does not wait for the reply.
 */
export function endOf(hold: Hold): Promise<unknown> | undefined {
  const { awaitsRelease } = hold;
  const released = hold.release().catch(() => undefined);
  return awaitsRelease ? released : undefined;
}

/**
 * Runs `fn` under a lock, then releases the lock. Returns what `fn` returns. A failed release never replaces the result
 * or the error of `fn`.
 *
 * @param acquired the lock, or a promise of it. If the promise rejects, `fn` does not run.
 * @param mayBeLazy whether somebody runs an Observable that `fn` returns, and keeps the lock until its end.
 * @throws LockConfigError if `fn` returns work that has not begun.
 * @throws LockLostError if the lock was lost before its release and `onLost` is `throw`. Its cause is the error of
 * `fn`.
 */
export async function runUnder<T, H extends Hold>(
  acquired: H | Promise<H>,
  onLost: OnLost,
  fn: (lock: H) => T | Promise<T>,
  mayBeLazy = false,
): Promise<T> {
  const lock = isHold(acquired) ? acquired : await acquired;
  let result: T;
  try {
    const work = (): T | Promise<T> => begun(fn(lock));
    result = await runInHold(lock, () => (workChannel.hasSubscribers ? runWork(lock.locks, work) : work()));
    if (!mayBeLazy) refuseLazy(result);
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

/** Begins a query that a library has built, and that runs when `then` is called. So it runs in the hold, too. */
export function begun<T>(result: T | Promise<T>): T | Promise<T> {
  if (typeof result !== 'object' || result === null || result instanceof Promise) return result;
  return 'then' in result && typeof result.then === 'function' ? Promise.resolve(result) : result;
}

/** @throws LockConfigError for an Observable or a generator, which would run without the lock. */
export function refuseLazy(result: unknown): void {
  if (typeof result !== 'object' || result === null) return;
  const { subscribe, pipe } = result as { readonly subscribe?: unknown; readonly pipe?: unknown };
  const isObservable = typeof subscribe === 'function' && typeof pipe === 'function';
  if (!isObservable && !Object.prototype.toString.call(result).endsWith('Generator]')) return;
  const [what, begins, advice] = isObservable
    ? ['an Observable', 'subscribes to it', 'lastValueFrom(observable)']
    : ['a generator', 'loops over it', 'what it yields, collected under the lock'];
  throw new LockConfigError(
    `The work under a lock returned ${what}, which runs when somebody ${begins}, after the lock has ended; ` +
      `return ${advice}.`,
  );
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
    refuseLazy(result);
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

/**
 * Refuses a call with `onceMs`, because an earlier run ended without an error. No caller gets it: `using` and `@Locked`
 * return undefined in its place.
 */
export class WorkDone extends Error {
  override readonly name = 'WorkDone';
}
