import { describe, it } from '@jest/globals';
import { MemoryStore } from 'nestjs-redis-lock';
import { ManualClock, registerStoreContract, type StoreUnderTest } from 'nestjs-redis-lock/testing';

export async function createStore(): Promise<StoreUnderTest> {
  const clock = new ManualClock();
  const store = new MemoryStore(clock); // your store here
  return { store, clock, pass: (ms) => clock.advance(ms), close: () => store.close() };
}

describe('my store', () => {
  const store = new MemoryStore(new ManualClock()); // the suite only reads its capabilities
  registerStoreContract({ store, createStore, describe, it });
});
