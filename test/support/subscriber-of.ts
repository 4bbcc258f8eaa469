import type { LockService } from 'nestjs-redis-lock';
import type { ChannelSubscription } from '../../lib/redis/pubsub/channel-subscriptions.js';
import type { TokenStore } from '../../lib/stores/token/token.store.js';
import { entryOf as encodedEntryOf } from '../../lib/stores/token/wire.js';
import { eventually } from './async.js';
import { storeOf } from './inside.js';

/** Returns the channel on which an instance receives messages from a single server. Undefined if none was needed. */
export function subscriptionOf(locks: LockService): ChannelSubscription | undefined {
  return storeOf<TokenStore>(locks).channels?.subscriptions.all[0];
}

/** Waits until an instance receives messages. Connecting a subscriber takes real time, whatever the clock says. */
export function untilSubscribed(locks: LockService): Promise<void> {
  return eventually('it is subscribed', () => subscriptionOf(locks)?.state === 'subscribed');
}

/** Returns the queue entry of one attempt of an instance, without a mode. */
export function entryOf(locks: LockService, attempt: number): string {
  return encodedEntryOf({ owner: `${locks.engine.instanceId}:${attempt}`, mode: 'exclusive' });
}
