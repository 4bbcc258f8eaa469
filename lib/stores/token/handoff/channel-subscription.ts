import type { Timer } from '../../../core/time/clock.js';
import type { ClusterNode } from '../../../redis/cluster/cluster-node.js';

/** `idle`: opened at the next ask. `moved`: opened as soon as it is known where. `waiting` for a connection. `proving`: waits for the echo. `refused` by the node. */
type SubscriptionState = 'idle' | 'moved' | 'waiting' | 'subscribing' | 'proving' | 'open' | 'refused';

/** The sharded channel of one hash tag. */
export class ChannelSubscription {
  /** Where it is subscribed, or is to be. */
  node: ClusterNode | undefined;
  state: SubscriptionState = 'idle';
  heardAt: number;
  /** Goes off where the echo is not heard. */
  doubt: Timer | undefined;
  /** How often it went off since the last echo. */
  doubts = 0;

  /** @param key one of those with that tag. */
  constructor(
    readonly channel: string,
    readonly key: string,
    public usedAt: number,
  ) {
    this.heardAt = usedAt;
  }

  /** Whether nothing is done to open it. */
  get resting(): boolean {
    return this.state === 'idle' || this.state === 'moved';
  }

  become(state: SubscriptionState): void {
    this.settle();
    this.state = state;
  }

  /** The echo was heard, or is not waited for any more. */
  settle(): void {
    this.doubt?.cancel();
    this.doubt = undefined;
  }
}
