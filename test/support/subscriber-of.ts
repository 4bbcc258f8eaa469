import type { LockService } from 'nestjs-redis-lock';
import type { VerifiedSubscriber } from '../../lib/redis/pubsub/verified-subscriber.js';
import type { HandoffChannel } from '../../lib/stores/token/handoff/handoff-channel.js';
import { encodeEntry } from '../../lib/stores/token/queue-entry.js';
import type { TokenStore } from '../../lib/stores/token/token.store.js';

/** Returns the subscriber on which an instance receives handoffs from a single server. */
export function subscriberOf(locks: LockService): VerifiedSubscriber {
  const { store } = locks.engine;
  // With `lockDelayMs` it is inside another store.
  const { handoffs } = ('inner' in store ? store.inner : store) as TokenStore;
  return (handoffs as HandoffChannel).subscriber;
}

/** Returns the queue entry of one attempt of an instance, without a mode. */
export function entryOf({ engine }: LockService, attempt: number): string {
  const { topology } = engine.store as TokenStore;
  return encodeEntry({ owner: `${engine.instanceId}:${attempt}`, mode: 'exclusive' }, topology.secret);
}
