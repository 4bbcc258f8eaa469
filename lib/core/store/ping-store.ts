import { messageOf } from '../errors.js';
import type { Clock } from '../time/clock.js';
import type { LockStore } from './lock-store.js';
import { downServer, type StorePing } from './store-ping.js';

/** The key that is inspected in a store that has no `ping`. No lock has this key. */
const PING_KEY = '{nestjs-redis-lock}|ping';

/**
 * Pings a store. Never rejects. A store without `ping` counts as one server, and is up if it can inspect a key.
 *
 * @param inspect inspects a key of the store, in bounded time.
 */
export async function pingStore(
  store: LockStore,
  clock: Pick<Clock, 'now'>,
  inspect: (key: string) => Promise<unknown>,
): Promise<StorePing> {
  const { name: server = 'store', queue } = store.capabilities;
  const handoff = queue ? 'subscription' : 'polling';
  const sentAt = clock.now();
  try {
    if (store.ping !== undefined) return await store.ping();
    await inspect(PING_KEY);
    const servers = [{ server, isUp: true, latencyMs: clock.now() - sentAt, error: undefined }];
    return { isUp: true, handoff, degraded: undefined, servers };
  } catch (error) {
    return { isUp: false, handoff, degraded: undefined, servers: [downServer(server, messageOf(error))] };
  }
}
