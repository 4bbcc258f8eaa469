import type { ClusterClient } from '../client-port.js';
import { type NatMap, reachedAt } from '../redirection.js';
import { SLOTS } from './hash-slot.js';

/**
 * Returns the addresses of each slot's master and replicas, from the reply to CLUSTER SLOTS.
 *
 * @param sender the address of the node that replied. A node that does not know its own host names an empty one.
 */
export function addressesBySlot(reply: unknown, sender: string, natMap: NatMap | undefined): ClusterClient['slots'] {
  const slots = Array.from<readonly string[] | undefined>({ length: SLOTS });
  for (const [first, last, ...nodes] of reply as [number, number, ...[string | null, number][]][]) {
    const named = nodes.map(([host, port]) => `${host === '?' ? '' : (host ?? '')}:${port}`);
    const addresses = named.map((address) => reachedAt(address, sender, natMap));
    if (addresses.length > 0) slots.fill(addresses, first, last + 1);
  }
  if (slots.every((addresses) => addresses === undefined)) throw new Error('the node knows no slots');
  return slots;
}
