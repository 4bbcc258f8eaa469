import 'reflect-metadata';

export { ManualClock } from './manual-clock.js';
export type { StoreUnderTest } from './store-bench.js';
export { registerStoreContract, type StoreContractOptions } from './store-contract.js';
export { createTestLocks, RedisLockTestingModule, type TestingOptions, withLocks } from './testing.module.js';
