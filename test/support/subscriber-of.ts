import type { LockService } from 'nestjs-redis-lock';
import type { VerifiedSubscriber } from '../../lib/redis/pubsub/verified-subscriber.js';
import type { HandoffChannel } from '../../lib/stores/token/handoff/handoff-channel.js';
import type { TokenStore } from '../../lib/stores/token/token.store.js';

/** Returns the subscriber on which an instance receives handoffs from a single server. */
export function subscriberOf(locks: LockService): VerifiedSubscriber {
  const { handoffs } = locks.engine.store as TokenStore;
  return (handoffs as HandoffChannel).subscriber;
}
