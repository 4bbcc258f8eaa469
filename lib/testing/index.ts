import 'reflect-metadata';

export { ManualClock } from './manual-clock.js';
export type { OtherClient, StoreUnderTest } from './contract/store-fixture.js';
export { registerStoreContract, type StoreContractOptions } from './contract/store-contract.js';
export {
  createTestLocks,
  RedisLockTestingModule,
  type TestingOptions,
  withLocks,
  withMemoryLocks,
} from './testing.module.js';
