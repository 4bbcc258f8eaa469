import { setTimeout as sleep } from 'node:timers/promises';
import { it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import type { LockStore } from '../../lib/contract/store.js';
import type { StoreFactory } from 'nestjs-redis-lock';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { SystemClock } from '../../lib/clock/clock.js';
import { turnsContract } from './turns-contract.js';
import { type ClientLibrary, ioredis, type OpenClient } from '../support/client-libraries.js';
import { asPort } from '../support/client-port.js';
import { testRedisUrl } from '../support/shared-redis.js';
import type { StoreUnderTest } from './store-fixture.js';
import type { RedisClient } from '../../lib/redis/redis-client.js';

/** A connection that the store must not open. */
export function unused(): never {
  throw new Error('the store must not open this connection');
}

export const CONTEXT = { requestTimeoutMs: 5_000, prefix: 'lock_', redis: unused, open: unused };

/** How a store under test is connected. */
export interface Connected {
  /** Default: ioredis. */
  readonly library?: ClientLibrary;
  /** How many replicas have to acknowledge a lock. Default: 0. */
  readonly min?: number;
  /** The server. Default: that of all tests. */
  readonly url?: string;
}

type Connections = Partial<Omit<Parameters<StoreFactory>[0], 'prefix'>>;

const unconnected = (url?: string): RedisClient => new Redis(url ?? '', { lazyConnect: true });

/** Returns a store that is never connected, for what it declares. */
export function declaredBy(factory: StoreFactory, client: RedisClient = unconnected()): LockStore {
  const open = (url: unknown) => asPort(unconnected(url as string));
  return factory({ ...CONTEXT, clock: new ManualClock(), redis: () => asPort(client), open });
}

/** As `declaredBy`, for a store on a cluster. */
export function declaredOnCluster(factory: StoreFactory): LockStore {
  return declaredBy(factory, new Cluster([], { lazyConnect: true }) as object as RedisClient);
}

/** Creates a store with connections of its own, which `quit` closes. */
function inRealTime(factory: StoreFactory, connections: Connections, quit: () => Promise<unknown>): StoreUnderTest {
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

function connected(factory: StoreFactory, connection: OpenClient, min: number): StoreUnderTest {
  const client = asPort(connection.client);
  const replicas = min > 0 ? { min, timeoutMs: 2_000 } : undefined;
  return inRealTime(factory, { redis: () => client, replicas }, () => connection.quit());
}

/**
 * Registers the tests of a contract in one block: Jest runs concurrent tests side by side within a block only. They
 * wait for leases in real time and use little of the processor. The test of turns counts the grants of two instances.
 * It runs where clocks stand still only: otherwise a busy machine decides how many there are.
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
      if (titles.includes(turnsContract.subject)) return;
      const run = it.concurrent;
      run(`${titles.join(' ')} ${name}`, body);
    },
    // Longer than a machine stalls: in these tests, several requests have to arrive within a lease.
    shortLeaseMs: 4_000,
  };
}
