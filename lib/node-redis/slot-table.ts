import { SLOTS } from '../redis/cluster/hash-slot.js';
import type { NatMap } from '../redis/client-port.js';
import { targetAddress } from '../redis/redirection.js';

/**
 * Returns the addresses of each slot's master and replicas, from the reply to CLUSTER SLOTS.
 *
 * @param sender the address of the node that replied. A node that does not know its own host names an empty one.
 */
export function addressesBySlot(
  reply: unknown,
  sender: string,
  natMap: NatMap | undefined,
): readonly (readonly string[] | undefined)[] {
  const slots = Array.from<readonly string[] | undefined>({ length: SLOTS });
  for (const [first, last, ...nodes] of reply as [number, number, ...[string | null, number][]][]) {
    const addresses = nodes.map(([host, port]) => {
      const named = { kind: 'moved' as const, host: host === '?' ? '' : (host ?? ''), port: String(port) };
      return targetAddress(named, sender, natMap);
    });
    if (addresses.length > 0) slots.fill(addresses, first, last + 1);
  }
  if (slots.every((addresses) => addresses === undefined)) throw new Error('the node knows no slots');
  return slots;
}
