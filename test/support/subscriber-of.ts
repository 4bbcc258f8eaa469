import type { LockService } from 'nestjs-redis-lock';
import type { ChannelSubscription } from '../../lib/redis/pubsub/channel-subscription.js';
import { encodeEntry } from '../../lib/stores/token/queue-entry.js';
import type { TokenStore } from '../../lib/stores/token/token.store.js';
import { eventually } from './async.js';
import { storeOf } from './inside.js';

/** Returns the channel on which an instance receives handoffs from a single server. Undefined if none was needed. */
export function subscriptionOf(locks: LockService): ChannelSubscription | undefined {
  const { handoffs } = storeOf(locks) as TokenStore;
  return handoffs?.subscriptions.all[0];
}

/** Waits until an instance receives handoffs. Connecting a subscriber takes real time, whatever the clock says. */
export function untilSubscribed(locks: LockService): Promise<void> {
  return eventually('it is subscribed', () => subscriptionOf(locks)?.state === 'subscribed');
}

/** Returns the queue entry of one attempt of an instance, without a mode. */
export function entryOf(locks: LockService, attempt: number): string {
  const { topology } = storeOf(locks) as TokenStore;
  return encodeEntry({ owner: `${locks.engine.instanceId}:${attempt}`, mode: 'exclusive' }, topology.secret);
}
