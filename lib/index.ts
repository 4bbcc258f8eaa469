import 'reflect-metadata';

export { RedisLockModule, type RedisLockModuleAsyncOptions, type RedisLockOptionsFactory } from './nest/module.js';
export type { CommonLockOptions, LockOptions, OnceOptions } from './options/lock.options.js';
export type { WrapOptions } from './options/wrap.options.js';
export type { HttpOptions, RedisLockModuleOptions } from './options/redis-lock.options.js';
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
export { bindLocks } from './nest/bind.js';
export { getLockServiceToken, InjectLockService } from './nest/service-token.js';
export { Locked, type LockedOptions } from './nest/locked.js';
export type { LockedDecorator } from './nest/method-types.js';
export { LockScope } from './nest/scope.js';
export { LockExceptionFilter } from './nest/lock-exception.filter.js';
export { WhileLeader, type WhileLeaderOptions } from './nest/leader.js';
export { LockParam } from './nest/parameters/lock-param.js';
export { CurrentLock } from './nest/parameters/current-lock.js';
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
