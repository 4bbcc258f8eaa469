import { instanceOf, type LockMode } from '../../lib/core/store/lock-store.js';
import type { World } from './world.js';

/** An instance has one ask under way and one that was given up, at most. */
const MOST_PLACES = 2;

/** Whether all of them may hold a lock at once: none beside one who wants it alone, and no more than there are permits. */
function mayShare(holders: readonly { readonly mode: LockMode }[]): boolean {
  if (holders.length <= 1) return true;
  const [{ mode }] = holders;
  const most = typeof mode === 'number' ? mode : Infinity;
  return mode !== 'exclusive' && holders.every((holder) => holder.mode === mode) && holders.length <= most;
}

/** What must be true of every state. Whether somebody could wait for ever is asked where a run ends, see `settle.ts`. */
export function check(world: World): void {
  const { holders } = world;
  const believers = world.processes.filter(({ hold }) => hold?.isBeforeDeadline);
  if (!mayShare(believers)) {
    world.violate(`one owner: ${believers.map(({ instanceId }) => instanceId).join(' and ')} both hold the lock`);
  }
  for (const { instanceId, hold } of believers) {
    if (!holders.some(({ owner }) => hold?.grant.owner === owner)) {
      const given = holders.map(({ owner }) => owner).join(' and ') || 'nobody';
      world.violate(`one owner: ${instanceId} holds a lock that the server has given to ${given}`);
    }
  }
  if (!mayShare(holders)) world.violate('one owner: the server has given the lock to some who may not share it');
  if (holders.some(({ token }) => token > world.table.lastToken)) world.violate('rising tokens: the last is forgotten');
  const places = new Map<string, number>();
  for (const { owner } of world.queue) {
    const instance = instanceOf(owner);
    const count = (places.get(instance) ?? 0) + 1;
    places.set(instance, count);
    if (count > MOST_PLACES) world.violate(`places: ${instance} stands in the queue ${count} times`);
  }
}
