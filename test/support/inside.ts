import type { Lock, LockService } from 'nestjs-redis-lock';
import { holdsAround } from '../../lib/core/hold/held-locks.js';

/** What tests need of the inside of an engine. A change of its classes changes this file, and no test. */

/** Returns how much the engine remembers of locks: of those that are held or requested, and of those to be renewed. */
export const keptBy = ({ engine }: LockService): number => engine.lines.size + engine.watchdog.size;

/** Returns how many groups of renewals there are that are due together. */
export const renewalGroupsOf = ({ engine }: LockService): number => engine.watchdog.bucketCount;

/** Renews all locks of an instance now. */
export const renewAllOf = ({ engine }: LockService): void => engine.watchdog.renewAll();

/** Makes the holds of an instance lost. */
export function loseAllOf({ engine }: LockService): void {
  for (const grant of engine.watchdog.grants()) engine.lose(grant, 'the test has lost it');
}

/** Refuses all callers that wait, as a shutdown does. */
export const refuseWaitersOf = ({ engine }: LockService): void => engine.lines.close();

/** Returns the owner of a lock, as the store has it. */
export const ownerOf = (lock: Lock): string => lock.grant.owner;

/** Returns how many holds and scopes surround the caller. */
export const contextsAround = (): number => [...holdsAround()].length;
