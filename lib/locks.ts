// What the entry points with Nest and without it have in common.
export type { CommonLockOptions, LockOptions, OnceOptions } from './options/lock.options.js';
export type { WrapOptions } from './options/wrap.options.js';
export type { AwaitedLockInfo, HeldLockInfo, LockHolder, LockInfo, LockWaiter } from './lock-info.js';
export type { LeadOptions } from './options/lead.options.js';
export {
  type AssertHeldOptions,
  type ExtendOptions,
  type ForceReleaseOptions,
  type ListOptions,
  LockService,
  type ResumeOptions,
} from './lock.service.js';
export { type DetachOptions, Lock } from './engine/lock.js';
export { MultiLock } from './engine/multi-lock.js';
export { type LockScopeOptions, runInLockScope } from './engine/lock-scope.js';
export { Leadership } from './engine/leadership.js';
export { resource } from './keys/key-template.js';
export {
  LockClosedError,
  LockConfigError,
  LockError,
  type LockErrorCode,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  LockReentryError,
  LockReplicationError,
  LockTimeoutError,
  LockUnavailableError,
} from './common/errors.js';
export type { StorePing } from './contract/store-ping.js';
export { memory } from './stores/memory/memory.store.js';
export { token } from './stores/token/token.js';
export type { ReplicaOptions, StoreFactory } from './stores/store-context.js';
