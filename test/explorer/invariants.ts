import { instanceOf } from '../../lib/core/lock-store.js';
import type { World } from './world.js';

/** An instance has one ask under way and one that was given up, at most. */
const MOST_PLACES = 2;

/** What must be true of every state. Whether somebody could wait for ever is asked where a run ends, see `settle.ts`. */
export function check(world: World): void {
  const { holder } = world;
  const believers = world.processes.filter(({ hold }) => hold?.believed);
  if (believers.length > 1) {
    world.violate(`one owner: ${believers.map(({ instanceId }) => instanceId).join(' and ')} both hold the lock`);
  }
  for (const { instanceId, hold } of believers) {
    if (hold?.grant.owner !== holder?.owner) {
      world.violate(`one owner: ${instanceId} holds a lock that the server has given to ${holder?.owner ?? 'nobody'}`);
    }
  }
  if (holder !== undefined && holder.token > world.table.lastToken)
    world.violate('rising tokens: the last is forgotten');
  const places = new Map<string, number>();
  for (const owner of world.row.queue) {
    const instance = instanceOf(owner);
    const count = (places.get(instance) ?? 0) + 1;
    places.set(instance, count);
    if (count > MOST_PLACES) world.violate(`places: ${instance} stands in the queue ${count} times`);
  }
}
