import { ok } from 'node:assert/strict';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { ChannelSource } from '../../../../lib/redis/pubsub/channel-source.js';
import { LockChannels } from '../../../../lib/stores/redisson/lock-channels.js';

const KEY = 'account-1';

let clock: ManualClock;
let source: ChannelSource;
let channels: LockChannels;
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
  channels = new LockChannels(clock, sources, (key) => `channel:${key}`, listener);
  // It subscribes at the second call.
  for (let i = 0; i < 2; i += 1) {
    ok(!channels.hears(KEY));
    await clock.advance(0);
  }
  ok(channels.hears(KEY));
  released = 0;
});

const receive = (): void => channels.subscriptions.onMessage(source, `channel:${KEY}`, '0');

describe('the message about a release of this instance', () => {
  it('wakes no waiter here, and the next message does', () => {
    channels.expectOwnMessage(KEY);
    receive();
    expect(released).toBe(0);
    receive();
    expect(released).toBe(1);
  });

  it('is awaited for 100 ms', async () => {
    channels.expectOwnMessage(KEY);
    await clock.advance(100);
    receive();
    expect(released).toBe(1);
  });
});

describe('a release that published nothing', () => {
  it('makes up for a message of others that was taken for its own', () => {
    channels.expectOwnMessage(KEY);
    receive();
    expect(released).toBe(0);
    channels.missOwnMessage(KEY);
    expect(released).toBe(1);
    receive();
    expect(released).toBe(2);
  });

  it('of a key without a channel wakes nobody', () => {
    channels.expectOwnMessage('account-2');
    channels.missOwnMessage('account-2');
    expect(released).toBe(0);
  });
});
