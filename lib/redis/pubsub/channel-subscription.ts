import type { Timer } from '../../clock/clock.js';
import type { ChannelSource } from './channel-source.js';

/**
 * `idle`: subscribed by the next `open`, or after a pause. `moved`: subscribed as soon as the slot's new node is known.
 * `waiting`: subscribed as soon as there is a connection. `refused`: by the server.
 */
export type SubscriptionState = 'idle' | 'moved' | 'waiting' | 'subscribing' | 'subscribed' | 'refused';

/** The state of one channel. */
export class ChannelSubscription {
  state: SubscriptionState = 'idle';
  /** The server at which the channel is subscribed, or will be. */
  source: ChannelSource | undefined;
  /** When the channel was last needed. */
  usedAt: number;
  /** Fires when a channel is subscribed again whose subscription has failed. */
  retryTimer: Timer | undefined;

  /**
   * @param key a key whose slot the channel follows.
   * @param stays the channel stays subscribed without a use.
   */
  constructor(
    readonly channel: string,
    readonly key: string,
    now: number,
    _unused?: undefined,
    readonly stays = false,
  ) {
    this.usedAt = now;
  }

  /** True if the channel is not subscribed, and nothing is under way to subscribe it. */
  get inactive(): boolean {
    return this.state === 'idle' || this.state === 'moved';
  }

  /** Enters a state, and cancels the retry of the last one. */
  enter(state: SubscriptionState): void {
    this.cancelRetry();
    this.state = state;
  }

  cancelRetry(): void {
    this.retryTimer?.cancel();
    this.retryTimer = undefined;
  }
}
