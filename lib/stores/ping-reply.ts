import type { StorePing } from '../contract/store-ping.js';
import type { TopologyPing } from '../redis/topology.js';

/**
 * Returns the ping of a store whose waiters are notified by messages.
 *
 * @param limitation what is limited without messages.
 * @param because why messages cannot be received. Undefined if they can.
 */
export function toStorePing(
  { isUp, servers, missing }: TopologyPing,
  limitation: string,
  because: string | undefined,
): StorePing {
  const polling = because === undefined ? undefined : `${limitation}: ${because}`;
  return { isUp, handoff: polling === undefined ? 'subscription' : 'polling', degraded: missing ?? polling, servers };
}
