import 'reflect-metadata';

export {
  RedisLockModule,
  type RedisLockModuleAsyncOptions,
  type RedisLockOptionsFactory,
} from './redis-lock.module.js';
export type { RedisLockModuleExtras } from './redis-lock.module-definition.js';
export type { LockOptions } from './options/lock.options.js';
export type { HttpOptions, RedisClusterOptions, RedisLockModuleOptions } from './options/redis-lock.options.js';
export type { RedisClient } from './redis/redis-client.js';
export type { AwaitedLockInfo, HeldLockInfo, LockHolder, LockInfo, LockSharing, LockWaiter } from './lock-info.js';
export type { LeadOptions } from './options/lead.options.js';
export { type AssertHeldOptions, type ForceReleaseOptions, type ListOptions, LockService } from './lock.service.js';
export { getLockServiceToken, InjectLockService } from './decorators/inject-lock-service.decorator.js';
export { Locked, type LockedDecorator, type LockedOptions } from './decorators/locked.decorator.js';
export { LockScope } from './decorators/lock-scope.decorator.js';
export { WhileLeader, type WhileLeaderOptions } from './decorators/while-leader.decorator.js';
export { LockParam } from './decorators/lock-param.decorator.js';
export { bindLocks } from './locked/bind-locks.js';
export { CurrentLock } from './decorators/current-lock.decorator.js';
export { LockedInterceptor } from './locked/locked.interceptor.js';
export { LockExceptionFilter } from './locked/lock-exception.filter.js';
export { Lock } from './core/hold/lock.js';
export { MultiLock } from './core/hold/multi-lock.js';
export { type LockScope as RunningLockScope, type LockScopeOptions, runInLockScope } from './core/hold/lock-scope.js';
export { Leadership } from './core/leader/leadership.js';
export { type KeyValue, resource } from './core/keys/key-template.js';
export {
  LockClosedError,
  LockConfigError,
  LockError,
  type LockErrorCode,
  LockKeyError,
  type LockKeyPlaceholder,
  LockLostError,
  LockNotHeldError,
  LockReentryError,
  LockReplicationError,
  LockTimeoutError,
  LockUnavailableError,
} from './core/errors.js';
export {
  type EndedEvent,
  type GrantedEvent,
  type LockEvent,
  lockChannels,
  type LostEvent,
  type RefusedEvent,
  storeChannel,
  type StoreEvent,
} from './core/events/diagnostics.js';
export type { ServerPing, StorePing } from './core/store/store-ping.js';
export type { LockCall } from './core/events/call.js';
export {
  type LockCallContext,
  type LockOutcome,
  lockTracing,
  workChannel,
  type WorkMessage,
} from './core/events/tracing.js';
export { memory } from './stores/memory/memory.store.js';
export { token } from './stores/token/token.js';
export type { ReplicaOptions, StoreFactory } from './stores/store-context.js';
