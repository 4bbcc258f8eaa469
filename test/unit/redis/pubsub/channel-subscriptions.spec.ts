import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { ChannelSource } from '../../../../lib/redis/pubsub/channel-source.js';
import { ChannelSubscription, ChannelSubscriptions } from '../../../../lib/redis/pubsub/channel-subscriptions.js';

describe('a channel that is redirected again and again', () => {
  it('has one retry timer, however often the slots change meanwhile', async () => {
    const clock = new ManualClock();
    let sent = 0;
    const subscribe = (): Promise<never> => {
      sent += 1;
      return Promise.reject(new Error('MOVED 1 127.0.0.1:7001'));
    };
    const source = {
      ready: true,
      open: () => undefined,
      subscribe,
      unsubscribe: () => undefined,
      close: () => undefined,
    } as unknown as ChannelSource;
    const subscriptions = new ChannelSubscriptions<ChannelSubscription>({
      clock,
      requestTimeoutMs: 1_000,
      lingerMs: 60_000,
      sourceOf: () => source,
      onSubscribed: () => undefined,
      onMessage: () => undefined,
      onRedirected: () => undefined,
      onRefused: () => undefined,
    });
    const subscription = new ChannelSubscription('channel', 'key', clock.now());
    subscriptions.add(subscription);
    subscriptions.open(subscription);
    for (let change = 0; change < 10; change += 1) {
      await clock.advance(10);
      subscriptions.onSlotsChanged();
    }
    await clock.advance(0);
    sent = 0;
    await clock.advance(500);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual(10);
    subscriptions.close();
  });
});
