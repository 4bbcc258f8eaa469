import type { Timer } from '../../core/time/clock.js';
import type { ChannelSource } from './channel-source.js';

/**
 * `idle`: subscribed by the next `open`, or after a pause. `moved`: subscribed as soon as the slot's new node is known.
 * `waiting`: subscribed as soon as there is a connection. `verifying`: waits for the probe. `refused`: by the server.
 */
export type SubscriptionState = 'idle' | 'moved' | 'waiting' | 'subscribing' | 'verifying' | 'subscribed' | 'refused';

/** The state of one channel. */
export class ChannelSubscription {
  state: SubscriptionState = 'idle';
  /** The server at which the channel is subscribed, or will be. */
  source: ChannelSource | undefined;
  /** When the channel was last needed. */
  usedAt: number;
  /** When the last message arrived. */
  receivedAt: number;
  /** Fires if the probe does not arrive. */
  probeTimer: Timer | undefined;
  /** Fires when a channel is subscribed again whose subscription has failed. */
  retryTimer: Timer | undefined;
  /** The owners that need the channel. It stays subscribed as long as there is one. */
  readonly neededBy = new Set<string>();
  /** How many probes in a row did not arrive. */
  failedProbes = 0;

  /**
   * @param key a key whose slot the channel follows.
   * @param probe lets the source publish an empty message to the channel. Returns how many subscribers the source has
   *   counted, or undefined if the count proves nothing. Without this function the channel counts as subscribed as soon
   *   as the source has confirmed it.
   * @param stays the channel stays subscribed without a use.
   */
  constructor(
    readonly channel: string,
    readonly key: string,
    now: number,
    readonly probe?: (source: ChannelSource) => Promise<number | undefined>,
    readonly stays = false,
  ) {
    this.usedAt = now;
    this.receivedAt = now;
  }

  /** True if the channel is not subscribed, and nothing is under way to subscribe it. */
  get inactive(): boolean {
    return this.state === 'idle' || this.state === 'moved';
  }

  /** Enters a state, and cancels the probe and the retry of the last one. */
  enter(state: SubscriptionState): void {
    this.cancelTimers();
    this.state = state;
  }

  cancelTimers(): void {
    this.cancelProbeTimer();
    this.retryTimer?.cancel();
    this.retryTimer = undefined;
  }

  cancelProbeTimer(): void {
    this.probeTimer?.cancel();
    this.probeTimer = undefined;
  }
}
