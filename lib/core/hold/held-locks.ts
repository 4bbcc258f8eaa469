import { surroundings } from '../async-context.js';
import type { Lock } from './lock.js';

/**
 * Returns the innermost hold that the caller runs inside and that fits. Skips holds that have ended: what outlives a
 * hold acquires the lock like any other caller.
 */
export function heldAround(fits: (lock: Lock) => boolean): Lock | undefined {
  for (const { lock: hold } of surroundings()) {
    const found = hold?.locks.find((lock) => lock.held && fits(lock));
    if (found !== undefined) return found;
  }
  return undefined;
}
