import type { Grant } from '../../../lib/core/lease/grant.js';
import { instanceOf } from '../../../lib/core/store/instance-id.js';
import type { LockMode } from '../../../lib/core/store/lock-store.js';
import type { World } from './world.js';

/** How many queue entries an instance may have: one current attempt for each share of the lock, and one given up. */
function mostEntries(mode: LockMode): number {
  return typeof mode === 'number' ? mode * 2 : 2;
}

/** Returns whether all of them may hold a lock at once: an exclusive one alone, and no more than there are permits. */
function mayShare(holders: readonly { readonly mode: LockMode }[]): boolean {
  if (holders.length <= 1) return true;
  const [{ mode }] = holders;
  const most = typeof mode === 'number' ? mode : Infinity;
  return mode !== 'exclusive' && holders.every((holder) => holder.mode === mode) && holders.length <= most;
}

/** Checks what must be true of every state. `settle.ts` checks where a run ends that no caller can wait forever. */
export function check(world: World): void {
  const { holders } = world;
  for (const { wronglyLost } of world.processes)
    if (wronglyLost !== undefined) world.violate(`by force: ${wronglyLost} has lost a lock that it had`);
  const grants = heldIn(world);
  if (!mayShare(grants)) world.violate(`one owner: ${grants.map(({ owner }) => owner).join(' and ')} hold the lock`);
  for (const { owner, mode, token = 0 } of grants) {
    if (token < world.lastExclusive)
      world.violate(`one owner: ${owner} holds a lock again that another has held since`);
    if (mode !== 'shared' && grants.filter((grant) => grant.owner === owner).length > 1)
      world.violate(`one owner: two callers of ${instanceOf(owner)} have one permit`);
    if (!holders.some((holder) => holder.owner === owner)) {
      const granted = holders.map((holder) => holder.owner).join(' and ') || 'nobody';
      world.violate(`one owner: ${owner} holds a lock that the server has granted to ${granted}`);
    }
  }
  if (!mayShare(holders)) world.violate('one owner: the server has granted the lock to owners that exclude each other');
  if (holders.some(({ token }) => token > world.table.lastToken))
    world.violate('rising tokens: the server has forgotten the last token');
  const places = new Map<string, number>();
  for (const { owner, mode } of world.queue) {
    const instance = instanceOf(owner);
    const count = (places.get(instance) ?? 0) + 1;
    places.set(instance, count);
    if (count > mostEntries(mode)) world.violate(`places: ${instance} has ${count} queue entries`);
  }
}

/**
 * Returns the grants that callers count on, without those that were released by force: their callers do not know it
 * before the message or the next renewal.
 */
function heldIn({ processes }: World): readonly Grant[] {
  const grants: Grant[] = [];
  for (const { holds, forced } of processes)
    for (const hold of holds) if (hold.isBeforeDeadline && !forced.includes(hold.grant.owner)) grants.push(hold.grant);
  return grants;
}
