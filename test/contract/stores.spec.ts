import { describe } from '@jest/globals';
import type { Redis } from 'ioredis';
import { memory, token } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';
import { ManualClock } from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import type { StoreListener } from '../../lib/contract/store.js';
import type { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { NODE_REDIS } from '../support/client-libraries.js';
import { canSetWallClocks } from '../support/server-clock/shim.js';
import { ON_MANUAL_CLOCK, onMasters, type OnStoppedServers, StoppedServersOfBlock } from './on-stopped-servers.js';
import { CONTEXT, declaredBy, onRedis, sideBySide } from './under-test.js';
import type { OtherClient, StoreUnderTest } from './store-fixture.js';
import { registerStoreContract } from './store-contract.js';

describe('memory store', () => {
  interface InMemory extends StoreUnderTest {
    readonly clock: ManualClock;
    readonly inner: MemoryStore;
  }

  /** Several instances use one store. */
  const instanceOf = (inner: MemoryStore, clock: ManualClock): InMemory => {
    const instanceIds: string[] = [];
    const listen = (listener: StoreListener): void => {
      instanceIds.push(listener.instanceId);
      inner.listen(listener);
    };
    const store = new Proxy(inner, {
      get: (target, name) => (name === 'listen' ? listen : Reflect.get(target, name)),
    });
    const close = async (): Promise<void> => {
      for (const instanceId of instanceIds) inner.forget(instanceId);
    };
    return { store, inner, clock, pass: (ms) => clock.advance(ms), close };
  };

  const createStore = async (beside?: InMemory): Promise<InMemory> => {
    const clock = beside?.clock ?? new ManualClock();
    return instanceOf(beside?.inner ?? (memory()({ ...CONTEXT, clock }) as MemoryStore), clock);
  };
  registerStoreContract({ store: declaredBy(memory()), createStore, ...ON_MANUAL_CLOCK });
});

/** A client of the articles that the timestamp store shares its keys with. */
function oldClient({ clients, clock }: OnStoppedServers, unitMs: number): OtherClient {
  const redis = clients[0] as object as Redis;
  let written = '';
  const now = (): number => Math.floor(clock.wallTime() / unitMs);
  return {
    // It has read the expired value before the holder replaced it, and its own expiry is a little earlier.
    lose: async (key) => void (await redis.getset(key, Number(await redis.get(key)) - Math.ceil(20 / unitMs))),
    acquire: async (key) => {
      const held = await redis.get(key);
      if (held !== null && now() <= Number(held)) return false;
      written = String(now() + Math.ceil(1_000 / unitMs) + 1);
      return (await redis.getset(key, written)) === held;
    },
    holds: async (key) => (await redis.get(key)) === written,
  };
}

const TIMESTAMP_STORES = [true, false].flatMap((scripts) => [
  { scripts, unit: 'ms', unitMs: 1 } as const,
  { scripts, unit: 's', unitMs: 1_000 } as const,
]);

if (canSetWallClocks('the contract of stores but memory() and token(), which runs in real time')) {
  describe('on servers whose clock stands still', () => {
    const server = new StoppedServersOfBlock(1);
    const masters = new StoppedServersOfBlock(3);

    server.describe('token store', () => token());
    // The other version, and other stores, run with npm run test:full.
    server.describe(`token store by ${NODE_REDIS[0].name}`, () => token(), NODE_REDIS[0]);
    server.describe('redisson store', () => redisson());
    server.describe('redisson store with fencing', () => redisson({ fencing: true }));
    for (const { scripts, unit, unitMs } of TIMESTAMP_STORES) {
      const name = `timestamp store in ${unit}, with scripts: ${scripts}`;
      const otherClient = (under: OnStoppedServers): OtherClient => oldClient(under, unitMs);
      server.describe(name, () => timestamp({ unit, scripts }), undefined, { otherClient });
    }
    masters.describe('quorum store', onMasters);
  });
} else {
  describe('token store in real time', () => {
    registerStoreContract({ store: declaredBy(token()), createStore: () => onRedis(token()), ...sideBySide() });
  });
}
