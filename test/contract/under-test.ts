import { setTimeout as sleep } from 'node:timers/promises';
import { it } from '@jest/globals';
import { quorum } from 'nestjs-redis-lock/quorum';
import type { RedisClient, StoreFactory } from 'nestjs-redis-lock/store';
import type { StoreUnderTest } from 'nestjs-redis-lock/testing';
import { SystemClock } from '../../lib/core/time/clock.js';
import { openRedis } from '../../lib/redis/open-redis.js';
import { turnsContract } from '../../lib/testing/contract/turns-contract.js';
import { type ClientLibrary, ioredis, type OpenClient } from '../support/client-libraries.js';
import { testRedisUrl } from '../support/shared-redis.js';

function unused(): never {
  throw new Error('the store must not open this connection');
}

export const CONTEXT = { requestTimeoutMs: 5_000, prefix: 'lock_', redis: unused, subscriber: unused, open: unused };

/** How a store under test is connected. */
export interface Connected {
  /** Default: ioredis. */
  readonly library?: ClientLibrary;
  /** How many replicas have to acknowledge a lock. Default: 0. */
  readonly min?: number;
  /** The server. Default: that of all tests. */
  readonly url?: string;
}

/** Creates a store with connections of its own, which `quit` closes. */
function underTest(
  factory: StoreFactory,
  connections: Partial<Omit<Parameters<StoreFactory>[0], 'prefix'>>,
  quit: () => Promise<unknown>,
): StoreUnderTest {
  const clock = new SystemClock();
  const store = factory({ ...CONTEXT, clock, ...connections });
  return {
    store,
    clock,
    pass: async (ms) => void (await sleep(ms)),
    close: async () => {
      await store.close();
      await quit();
    },
  };
}

/** Creates a store on one server. */
export async function onRedis(
  factory: StoreFactory,
  { library = ioredis, min = 0, url = testRedisUrl() }: Connected = {},
): Promise<StoreUnderTest> {
  return connected(factory, await library.connect(url), min);
}

/** Creates a store on a cluster. */
export async function onCluster(
  factory: StoreFactory,
  nodes: readonly { readonly host: string; readonly port: number }[],
  { library = ioredis, min = 0 }: Omit<Connected, 'url'> = {},
): Promise<StoreUnderTest> {
  return connected(factory, await library.connectCluster(nodes), min);
}

/** Creates a store that votes on several masters. */
export async function onQuorum(
  masters: readonly { readonly url: string }[],
  { library = ioredis }: Pick<Connected, 'library'> = {},
): Promise<StoreUnderTest> {
  const connections = await Promise.all(masters.map(({ url }) => library.connect(url)));
  const clients = connections.map(({ client }) => client);
  const open = (client: unknown) => ({ client: client as RedisClient, subscriber: unused });
  // All nodes vote. A busy machine may take long for many requests at once.
  const factory = quorum(clients, { nodeTimeoutMs: 2_000 });
  return underTest(factory, { open }, () => Promise.all(connections.map((connection) => connection.quit())));
}

function connected(factory: StoreFactory, connection: OpenClient, min: number): StoreUnderTest {
  const { client } = connection;
  const opened = openRedis(client, new SystemClock());
  const replicas = min > 0 ? { min, timeoutMs: 2_000, connect: () => opened.replicaConnection() } : undefined;
  return underTest(factory, { redis: () => client, subscriber: () => opened.subscriber(), replicas }, () =>
    connection.quit(),
  );
}

/**
 * Registers the tests of a contract in one block: Jest runs concurrent tests side by side within a block only. They
 * wait for leases of a second and use little of the processor. The test of turns, which is the last one, runs alone: it
 * counts the grants of two instances, and other tests would block the event loop of one of them at the wrong moment.
 */
export function sideBySide() {
  const titles: string[] = [];
  return {
    describe: (name: string, body: () => void): void => {
      titles.push(name);
      body();
      titles.pop();
    },
    it: (name: string, body: () => Promise<void>): void => {
      const run = titles.includes(turnsContract.subject) ? it : it.concurrent;
      run(`${titles.join(' ')} ${name}`, body);
    },
  };
}
