export * from '../locks.js';
export { createLocks, type CreateLocksOptions, type Locks } from './create-locks.js';
export type { LockLogger } from '../options/lock-logger.js';
