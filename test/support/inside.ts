import type { Lock, LockService } from 'nestjs-redis-lock';
import { holdsAround } from '../../lib/engine/call-context.js';

/** What tests need of the inside of an engine. A change of its classes changes this file, and no test. */

/** Returns how much the engine remembers of locks: of those that are held or requested, and of those to be renewed. */
export const keptBy = ({ engine }: LockService): number => engine['queues'].size + engine.holds().length;

/** Returns how many groups of renewals there are that are due together. */
export const renewalGroupsOf = ({ engine }: LockService): number => engine['parts'].renewer['buckets'].size;

/** Renews all locks of an instance now. */
export const renewAllOf = ({ engine }: LockService): void => engine['parts'].renewer.renewAll();

/** Makes the holds of an instance lost. */
export function loseAllOf({ engine }: LockService): void {
  for (const lock of engine.holds()) engine.lose(lock, 'the test has lost it');
}

/** Refuses all callers that wait, as a shutdown does. */
export function refuseWaitersOf({ engine }: LockService): void {
  for (const queue of engine['queues'].values()) queue.refuseAll(false);
}

/** Returns the owner of a lock, as the store has it. */
export const ownerOf = (lock: Lock): string => lock.lease.owner;

/** Returns how many holds and scopes surround the caller. */
export const contextsAround = (): number => [...holdsAround()].length;

/** Returns the store of an instance. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- only the caller knows which store it is
export function storeOf<Store extends object>({ engine }: Pick<LockService, 'engine'>): Store {
  const { store } = engine;
  return store as object as Store;
}
