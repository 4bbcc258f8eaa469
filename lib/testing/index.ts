import 'reflect-metadata';

export {
  createTestBench,
  type OccupiedLock,
  type OccupyOptions,
  TestBench,
  type TestBenchOptions,
} from './test-bench.js';
export { ManualClock } from './manual-clock.js';
export {
  createTestLocks,
  RedisLockTestingModule,
  type TestingOptions,
  withLocks,
  withMemoryLocks,
} from './testing.module.js';
