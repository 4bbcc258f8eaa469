import type { LockLostError } from '../common/errors.js';
import type { Lock } from './lock.js';
import type { Parts } from './parts.js';

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
