import { LockNotHeldError } from '../errors.js';
import type { Target } from '../events/call.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import { heldAround, lossAround } from './held-locks.js';
import type { Lock } from './lock.js';

/**
 * Returns the hold of a lock that the caller runs in.
 *
 * @param mode what the caller needs. An exclusive hold is enough for `shared`.
 * @throws LockNotHeldError if the caller does not run in a hold of the lock, or only shares it and needs it alone.
 * @throws LockLostError if the hold was lost.
 */
export function assertHeldAround(leases: LeaseManager, { resource, key }: Target, mode: 'exclusive' | 'shared'): Lock {
  const lock = heldAround(leases, key);
  if (lock === undefined) throw lossAround(resource, key) ?? notHeld(resource);
  lock.assertHeld();
  if (mode === 'shared' || lock.grant.mode === 'exclusive') return lock;
  throw new LockNotHeldError(
    `${resource} is held with others, and this code needs it exclusively; use an exclusive hold, or mode: 'shared'.`,
    { resource },
  );
}

function notHeld(resource: string): LockNotHeldError {
  return new LockNotHeldError(
    `${resource} is not held here; call this inside using(), a @Locked method or a lock scope that has it. ` +
      'A lock from acquire() has an assertHeld() of its own.',
    { resource },
  );
}
