export * from '../locks.js';
export { createLocks, type CreateLocksOptions, type Locks } from './create-locks.js';
export type { LockLogger } from '../lock-runtime.js';
