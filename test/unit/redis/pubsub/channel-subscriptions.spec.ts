import { expect, it, jest } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { ChannelSource } from '../../../../lib/redis/pubsub/channel-source.js';
import { ChannelSubscription, ChannelSubscriptions } from '../../../../lib/redis/pubsub/channel-subscriptions.js';

// Slots move back and nodes disagree only for a moment, which no real cluster does on demand.
it.each([
  ['was redirected', 'MOVED 1 127.0.0.1:7001', 2],
  ['got an error that may pass', 'TRYAGAIN', 2],
  ['is forbidden', 'NOPERM this user has no permissions', 1],
])('a channel that %s is subscribed by the next use, unless that cannot help', async (_how, error, attempts) => {
  const clock = new ManualClock();
  const subscribe = jest.fn<ChannelSource['subscribe']>().mockRejectedValueOnce(new Error(error)).mockResolvedValue();
  const nothing = (): void => undefined;
  const source = { ready: true, open: nothing, unsubscribe: nothing, close: nothing, subscribe } as never;
  const subscriptions = new ChannelSubscriptions<ChannelSubscription>({
    clock,
    lingerMs: 60_000,
    sourceOf: () => source,
    onSubscribed: nothing,
    onMessage: nothing,
    onRedirected: nothing,
    onRefused: nothing,
  });
  const subscription = new ChannelSubscription('channel', 'key', clock.now(), true);
  subscriptions.add(subscription);
  subscriptions.open(subscription);
  await clock.advance(10_000);
  expect(subscribe).toHaveBeenCalledTimes(1);
  for (let use = 0; use < 3; use += 1) {
    subscriptions.open(subscription);
    await clock.advance(0);
  }
  expect(subscribe).toHaveBeenCalledTimes(attempts);
});
