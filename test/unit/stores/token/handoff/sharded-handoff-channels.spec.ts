import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { atEndOfTick } from '../../../../../lib/core/time/clock.js';
import type { KeyFilter } from '../../../../../lib/core/store/lock-store.js';
import type { ClusterNode } from '../../../../../lib/redis/cluster/cluster-node.js';
import { PROBE } from '../../../../../lib/redis/pubsub/verified-subscriber.js';
import { ShardedHandoffChannels } from '../../../../../lib/stores/token/handoff/sharded-handoff-channels.js';

const tickEnd = (): Promise<void> => new Promise((resolve) => void atEndOfTick(resolve));

/** The channels of an instance beside a node that confirms every subscription. */
function channelsOf(reports: KeyFilter[]) {
  const subscribed = (): Promise<number> => Promise.resolve(1);
  const node = {
    connection: { client: { eval: subscribed, evalsha: subscribed }, sentScripts: new Set(), evalOnly: false },
    subscriber: { ready: true, subscribe: subscribed, unsubscribe: () => undefined, close: () => undefined },
    openSubscriber: () => undefined,
    onLastUnsubscribed: () => undefined,
  } as unknown as ClusterNode;
  const topology = {
    keysOf: (key: string) => [key, 'fence', `${key}|queue`],
    handoffArgs: (key: string) => [`channel:${key}:`],
    nodeOf: () => node,
    refresh: () => undefined,
  };
  const channels = new ShardedHandoffChannels('one', topology, new ManualClock(), 1_000, {
    onMessage: () => undefined,
    onSubscribed: (concerns) => void (concerns && reports.push(concerns)),
    onRefused: () => undefined,
  });
  const probe = (key: string): void => channels.subscriptions.onMessage(node, `channel:${key}:one`, PROBE);
  return { channels, probe };
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
});
