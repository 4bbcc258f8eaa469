import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-redis-lock/testing';
import type { RedisSubscriber } from '../../../../../lib/redis/redis-client.js';
import type { RedisConnection } from '../../../../../lib/redis/redis-connection.js';
import { HandoffChannel } from '../../../../../lib/stores/token/handoff/handoff-channel.js';

/** A client that never becomes ready, and whose end a test causes. */
class SilentClient extends EventEmitter {
  readonly status = 'connecting';
  connect = (): Promise<void> => Promise.resolve();
  disconnect = (): void => undefined;
}

/** The channel of an instance whose clients never become ready. */
function channelOf(connect?: () => RedisSubscriber | undefined) {
  const clock = new ManualClock();
  const clients: SilentClient[] = [];
  const refusals: string[] = [];
  const open = (): RedisSubscriber => {
    const client = new SilentClient();
    clients.push(client);
    return client as unknown as RedisSubscriber;
  };
  const connection = { ready: false } as RedisConnection;
  const channel = new HandoffChannel('one', connection, clock, 1_000, connect ?? open, {
    onMessage: () => undefined,
    onSubscribed: () => undefined,
    onRefused: (why) => void refusals.push(why),
  });
  const end = (): boolean => clients[clients.length - 1].emit('end');
  return { channel, clock, clients, refusals, end };
}

describe('the channel of an instance with a hold that lasts', () => {
  it('is opened once, and again 10 s after each end of its connection', async () => {
    const { channel, clock, clients, end } = channelOf();
    for (const owner of ['one:1', 'one:2']) channel.onGranted(owner, 'goods');
    await clock.advance(50);
    expect(clients).toHaveLength(1);
    for (const count of [2, 3]) {
      end();
      await clock.advance(9_999);
      expect(clients).toHaveLength(count - 1);
      await clock.advance(1);
      expect(clients).toHaveLength(count);
    }
    channel.close();
    await clock.advance(60_000);
    expect(clients).toHaveLength(3);
    expect(clock.pending).toBe(0);
  });

  it('is opened later if the connection of a waiter has just ended', async () => {
    const { channel, clock, clients, end } = channelOf();
    channel.open('goods');
    end();
    channel.onGranted('one:1', 'goods');
    await clock.advance(60);
    expect(clients).toHaveLength(1);
    await clock.advance(10_000);
    expect(clients).toHaveLength(2);
    channel.close();
  });

  it('is opened for the next such hold after a client that was given has ended and is back', async () => {
    const { channel, clock, clients } = channelOf();
    channel.onGranted('one:1', 'goods');
    await clock.advance(50);
    channel.close();
    channel.onGranted('one:2', 'goods');
    await clock.advance(50);
    expect(clients).toHaveLength(2);
    channel.close();
  });

  it('survives a client that throws, says why, and tries again', async () => {
    let calls = 0;
    const { channel, clock, refusals } = channelOf(() => {
      calls += 1;
      throw new Error('no further connection');
    });
    channel.onGranted('one:1', 'goods');
    await clock.advance(50);
    expect(refusals).toEqual([expect.stringContaining('no further connection')]);
    channel.open('goods');
    expect(calls).toBe(1);
    await clock.advance(10_000);
    expect(calls).toBe(2);
    channel.close();
    expect(clock.pending).toBe(0);
  });
});
