import type { LockPubSubSource } from './lock-pubsub-sources.js';

/**
 * `noted`: refused once; who waits will ask again, who does not costs no subscription. `subscribing`: as soon as there is a
 * connection. `refused`: by the server.
 */
type SubscriptionState = 'noted' | 'subscribing' | 'open' | 'refused';

/** A key that somebody waits for, or did a moment ago. */
export class LockSubscription {
  state: SubscriptionState = 'noted';
  /** Where it is subscribed, or is to be. */
  source: LockPubSubSource | undefined;
  /** Changes with everything that is heard, and each time that the ear opens. */
  news = 0;
  /** Owners who were told that they will hear of the key. */
  readonly waiting = new Set<string>();

  constructor(
    readonly key: string,
    readonly channel: string,
    public usedAt: number,
  ) {}
}
