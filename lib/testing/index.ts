import 'reflect-metadata';

export { ManualClock } from './manual-clock.js';
export { registerStoreContract, type StoreContractOptions, type StoreUnderTest } from './store-contract.js';
export { createTestLocks, RedisLockTestingModule, type TestingOptions, withLocks } from './testing.module.js';
