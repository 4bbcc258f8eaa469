import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { quorum } from 'nestjs-redis-lock/quorum';
import type { StoreFactory } from 'nestjs-redis-lock';
import type { ManualClock } from 'nestjs-redis-lock/testing';
import { type ClientLibrary, ioredis } from '../support/client-libraries.js';
import { randomFrom } from '../support/random.js';
import type { ServerManualClock } from '../support/server-clock/server-manual-clock.js';
import { StoppedServers } from '../support/server-clock/stopped-servers.js';
import { asPort } from '../support/client-port.js';
import { CONTEXT, declaredBy } from './under-test.js';
import { registerStoreContract, type StoreContractOptions } from './store-contract.js';
import type { StoreUnderTest } from './store-fixture.js';
import type { RedisClient } from '../../lib/redis/redis-client.js';

/** A store whose servers have a clock that the test moves. */
export interface OnStoppedServers extends StoreUnderTest {
  readonly clock: ServerManualClock;
  /** The connections of the store, one to each server. */
  readonly clients: readonly RedisClient[];
}

/** Makes the factory of a store from its connections. */
type FactoryOf = (clients: readonly RedisClient[]) => StoreFactory;

const register: (name: string, body: () => Promise<void>) => void = it;

/** For stores with a manual clock, whose tests run one after the other. */
export const ON_MANUAL_CLOCK = {
  describe,
  // Jest does not see the assertions of node:assert.
  it: (name: string, body: () => Promise<void>): void => register(name, () => expect(body()).resolves.toBeUndefined()),
  turnBack: ({ clock }: { readonly clock: ManualClock }, ms: number): void => clock.setWallTime(clock.wallTime() - ms),
};

/** The quorum of three masters. */
export const onMasters: FactoryOf = (clients) => quorum(clients, { nodeTimeoutMs: 200 });

/** Servers with a stopped clock for the tests of one block, which run the contract on them. */
export class StoppedServersOfBlock {
  private servers!: StoppedServers;

  constructor(count: number) {
    beforeAll(async () => {
      // Tokens that are reserved are not ahead of the clock.
      this.servers = await StoppedServers.start(count, true);
    });
    afterAll(() => this.servers?.stop());
  }

  /** Registers the contract of a store as a block of this name. */
  describe(
    name: string,
    factoryOf: FactoryOf,
    library: ClientLibrary = ioredis,
    more: Pick<StoreContractOptions<OnStoppedServers>, 'otherClient'> = {},
  ): void {
    const store = declaredBy(factoryOf(['redis://one', 'redis://two', 'redis://three'] as never));
    const createStore = (beside?: OnStoppedServers) => this.create(factoryOf, library, beside);
    ON_MANUAL_CLOCK.describe(name, () => {
      registerStoreContract({ store, createStore, ...ON_MANUAL_CLOCK, ...more });
    });
  }

  /** Returns a clock with random pauses. With equal ones, two instances that take turns stay in step. */
  private newClock(): ServerManualClock {
    const clock = this.servers.clock();
    // Each read has set the servers ahead of the last test's clock by 1 µs, however many there were.
    clock.setWallTime(clock.wallTime() + 1_000);
    clock.random = randomFrom(1);
    return clock;
  }

  private async create(
    factoryOf: FactoryOf,
    library: ClientLibrary,
    beside: OnStoppedServers | undefined,
  ): Promise<OnStoppedServers> {
    const clock = beside?.clock ?? this.newClock();
    const connections = await Promise.all(this.servers.urls.map((url) => library.connect(url)));
    const clients = connections.map(({ client }) => client);
    const store = factoryOf(clients)({
      ...CONTEXT,
      clock,
      redis: () => asPort(clients[0]),
      open: asPort,
    });
    return {
      store,
      clock,
      clients,
      pass: (ms) => clock.advance(ms),
      close: async () => {
        await store.close();
        await Promise.all(connections.map((connection) => connection.quit()));
      },
    };
  }
}
