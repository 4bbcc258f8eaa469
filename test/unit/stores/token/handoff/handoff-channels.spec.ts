import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { atEndOfTick } from '../../../../../lib/core/time/clock.js';
import type { KeyFilter } from '../../../../../lib/core/store/lock-store.js';
import type { ChannelSource } from '../../../../../lib/redis/pubsub/channel-source.js';
import { PROBE } from '../../../../../lib/redis/pubsub/channel-subscriptions.js';
import { CHANNEL_OF_TAG, HandoffChannels } from '../../../../../lib/stores/token/handoff/handoff-channels.js';

const tickEnd = (): Promise<void> => new Promise((resolve) => void atEndOfTick(resolve));

/**
 * The channels of an instance beside a node that confirms every subscription.
 *
 * @param node how many subscribers the node counts at a probe, and whether the channels are sharded.
 */
function channelsOf(reports: KeyFilter[] = [], { subscribers = 1, isSharded = false } = {}) {
  let attempts = 0;
  const refusals: string[] = [];
  const source = {
    connection: { client: { run: async () => subscribers }, sentScripts: new Set(), evalOnly: false, ready: true },
    ready: true,
    open: () => undefined,
    subscribe: async () => (attempts += 1),
    unsubscribe: () => undefined,
    reconnect: () => undefined,
    close: () => undefined,
  } as unknown as ChannelSource;
  const topology = {
    keysOf: (key: string) => [key, 'fence', `${key}|queue`],
    handoffArgs: (key: string) => [`channel:${key}:`, ...(isSharded ? ['1'] : [])],
    sourceOf: () => source,
  };
  const clock = new ManualClock();
  const channels = new HandoffChannels(
    'one',
    topology,
    CHANNEL_OF_TAG,
    { clock, requestTimeoutMs: 1_000 },
    {
      onMessage: () => undefined,
      onSubscribed: (concerns) => void reports.push(concerns),
      onRefused: (why) => void refusals.push(why),
    },
  );
  const probe = (key: string): void => channels.subscriptions.onMessage(source, `channel:${key}:v1-one`, PROBE);
  const opened = (): string[] => channels.subscriptions.all.map(({ channel }) => channel);
  const isSubscribed = (key: string): boolean => channels.isSubscribed(key, source);
  return { channels, clock, opened, probe, isSubscribed, refusals, attempts: () => attempts };
}

describe('the channels of an instance in a cluster', () => {
  it('are reported together if they were subscribed in one tick', async () => {
    const reports: KeyFilter[] = [];
    const { channels, probe } = channelsOf(reports);
    const keys = ['goods:1', 'goods:2', 'goods:3'];
    for (const key of keys) channels.open(key);
    await tickEnd();
    probe('goods:1');
    probe('goods:2');
    await tickEnd();
    probe('goods:3');
    await tickEnd();
    expect(reports.map((concerns) => keys.filter(concerns))).toEqual([['goods:1', 'goods:2'], ['goods:3']]);
    channels.close();
  });

  it('are not reported after they were closed', async () => {
    const reports: KeyFilter[] = [];
    const { channels, probe } = channelsOf(reports);
    channels.open('goods:1');
    await tickEnd();
    probe('goods:1');
    channels.close();
    await tickEnd();
    expect(reports).toEqual([]);
  });

  it('are not opened by a grant whose reply arrives after they were closed', async () => {
    const { channels, clock, opened } = channelsOf();
    channels.close();
    channels.onGranted('one:1', 'goods:1');
    expect(clock.pending).toBe(0);
    channels.open('goods:1');
    expect(opened()).toEqual([]);
  });

  it('are subscribed again, without a warning, if their node counts no subscriber', async () => {
    const { channels, clock, attempts, isSubscribed, refusals } = channelsOf([], { isSharded: true, subscribers: 0 });
    channels.open('goods:1');
    await clock.advance(999);
    expect([attempts(), isSubscribed('goods:1')]).toEqual([1, false]);
    await clock.advance(1);
    expect([attempts(), isSubscribed('goods:1'), refusals]).toEqual([2, false, []]);
    channels.close();
  });

  it('are opened for holds that last, and kept as long as these', async () => {
    const { channels, clock, opened, probe } = channelsOf();
    channels.onGranted('one:1', 'goods:1');
    channels.onGranted('one:2', 'goods:2');
    await clock.advance(900);
    channels.onReleased('one:2');
    expect(opened()).toEqual([]);
    await clock.advance(1_200);
    expect(opened()).toEqual(['channel:goods:1:v1-one']);
    probe('goods:1');
    // Unused channels are closed after a minute.
    await clock.advance(600_000);
    expect(opened()).toEqual(['channel:goods:1:v1-one']);
    channels.onReleased('one:1');
    await clock.advance(130_000);
    expect(opened()).toEqual([]);
    channels.close();
    expect(clock.pending).toBe(0);
  });

  it('are not opened for the holds of thousands of hash tags', async () => {
    const { channels, clock, opened } = channelsOf();
    for (let i = 0; i < 3_000; i += 1) channels.onGranted(`one:${i}`, `goods:${i}`);
    await clock.advance(2_000);
    expect(opened()).toHaveLength(1_000);
    // Waiters need theirs.
    channels.open('goods:2999');
    expect(opened()).toHaveLength(1_001);
    channels.close();
  });
});

it('a plain channel is subscribed when its probe arrives, even if another server counts it', async () => {
  const { channels, probe, isSubscribed } = channelsOf([], { subscribers: 0 });
  channels.open('goods:1');
  await tickEnd();
  probe('goods:1');
  expect(isSubscribed('goods:1')).toBe(true);
  channels.close();
});
