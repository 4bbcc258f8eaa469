import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { ChannelSource } from '../../../../lib/redis/pubsub/channel-source.js';
import { LockPubSub } from '../../../../lib/stores/redisson/lock-pubsub.js';

const KEY = 'account-1';

let clock: ManualClock;
let source: ChannelSource;
let pubsub: LockPubSub;
let released: number;

/** Waits for the key, whose channel is subscribed. */
beforeEach(async () => {
  clock = new ManualClock();
  released = 0;
  const nothing = (): void => undefined;
  source = {
    ready: true,
    subscribe: () => Promise.resolve(),
    open: nothing,
    unsubscribe: nothing,
    verifyConnection: nothing,
  } as unknown as ChannelSource;
  const sources = { sourceOf: () => source };
  const listener = { onReleased: () => void (released += 1), onSubscribed: nothing, onRefused: nothing };
  pubsub = new LockPubSub(clock, 1_000, listener, sources, (key) => `channel:${key}`);
  for (let i = 0; i < 2; i += 1) {
    pubsub.waitForRelease(KEY, 'owner', undefined);
    await clock.advance(0);
  }
  released = 0;
});

const receive = (): void => pubsub.subscriptions.onMessage(source, `channel:${KEY}`, '0');

describe('the message about a release of this instance', () => {
  it('notifies no waiter here, and the next message does', () => {
    expect(pubsub.ignoreOwnMessage(KEY)).toBe(true);
    receive();
    expect(released).toBe(0);
    receive();
    expect(released).toBe(1);
  });

  it('is awaited for 100 ms', async () => {
    pubsub.ignoreOwnMessage(KEY);
    await clock.advance(100);
    receive();
    expect(released).toBe(1);
  });
});

describe('a release that published nothing', () => {
  it('lets the next message notify the waiters', () => {
    pubsub.ignoreOwnMessage(KEY);
    pubsub.onNotPublished(KEY);
    expect(released).toBe(0);
    receive();
    expect(released).toBe(1);
  });

  it('makes up for a message of others that was taken for its own', () => {
    pubsub.ignoreOwnMessage(KEY);
    receive();
    expect(released).toBe(0);
    pubsub.onNotPublished(KEY);
    expect(released).toBe(1);
  });

  it('of a key without a channel notifies nobody', () => {
    expect(pubsub.ignoreOwnMessage('account-2')).toBe(false);
    pubsub.onNotPublished('account-2');
    expect(released).toBe(0);
  });
});
