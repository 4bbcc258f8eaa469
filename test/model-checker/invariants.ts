import { instanceOf, type LockMode } from '../../lib/core/store/lock-store.js';
import type { World } from './world.js';

/** An instance has at most one current attempt and one that was given up. */
const MAX_ENTRIES = 2;

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
  const holding = world.processes.filter(({ hold }) => hold?.isBeforeDeadline);
  if (!mayShare(holding)) {
    world.violate(`one owner: ${holding.map(({ instanceId }) => instanceId).join(' and ')} both hold the lock`);
  }
  for (const { instanceId, hold } of holding) {
    if ((hold?.grant.token ?? 0) < world.lastExclusive)
      world.violate(`one owner: ${instanceId} holds a lock again that another has held since`);
    if (!holders.some(({ owner }) => hold?.grant.owner === owner)) {
      const granted = holders.map(({ owner }) => owner).join(' and ') || 'nobody';
      world.violate(`one owner: ${instanceId} holds a lock that the server has granted to ${granted}`);
    }
  }
  if (!mayShare(holders)) world.violate('one owner: the server has granted the lock to owners that exclude each other');
  if (holders.some(({ token }) => token > world.table.lastToken))
    world.violate('rising tokens: the server has forgotten the last token');
  const places = new Map<string, number>();
  for (const { owner } of world.queue) {
    const instance = instanceOf(owner);
    const count = (places.get(instance) ?? 0) + 1;
    places.set(instance, count);
    if (count > MAX_ENTRIES) world.violate(`places: ${instance} has ${count} queue entries`);
  }
}
