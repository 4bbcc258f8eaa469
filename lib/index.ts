import 'reflect-metadata';

export {
  RedisLockModule,
  type RedisLockModuleAsyncOptions,
  type RedisLockOptionsFactory,
} from './redis-lock.module.js';
export type { RedisLockModuleExtras } from './redis-lock.module-definition.js';
export type { LockOptions, RedisClusterOptions, RedisLockModuleOptions } from './redis-lock.options.js';
export type { LockHolder, LockInfo, LockSharing, LockWaiter } from './lock-info.js';
export { LockService } from './lock.service.js';
export { getLockServiceToken, InjectLockService } from './inject-lock-service.decorator.js';
export { Locked, type LockedDecorator, type LockedOptions } from './locked.decorator.js';
export { LockParam } from './lock-param.decorator.js';
export { CurrentLock } from './current-lock.decorator.js';
export { LockedInterceptor } from './locked.interceptor.js';
export { LockExceptionFilter } from './lock-exception.filter.js';
export { Lock } from './core/lock.js';
export { MultiLock } from './core/multi-lock.js';
export { type KeyValue, resource } from './core/key-template.js';
export {
  LockClosedError,
  LockConfigError,
  LockError,
  type LockErrorCode,
  LockKeyError,
  LockLostError,
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
  type RefusedEvent,
} from './core/diagnostics.js';
export type {
  AskReply,
  AskRequest,
  ExtendReply,
  ExtendRequest,
  GrantedTokens,
  HandOff,
  HandOffTerms,
  HolderInfo,
  LockMode,
  LockModeKind,
  LockOwnership,
  LockState,
  LockStore,
  ReleaseRequest,
  RetryPace,
  StoreCapabilities,
  StoreListener,
  WaiterInfo,
} from './core/lock-store.js';
export type { Clock, Timer } from './core/clock.js';
export type { RedisClient, RedisSubscriber } from './stores/redis/redis-client.js';
export type { ReplicaDemand, ReplicaLink, ReplicaOptions } from './stores/token/replica-link.js';
export type { RedisEndpoint, StoreContext, StoreFactory } from './stores/store-context.js';
export { memory, MemoryStore } from './stores/memory/memory.store.js';
export { timestamp } from './stores/timestamp/timestamp.store.js';
export type { TimestampOptions, TimestampUnit } from './stores/timestamp/timestamp-options.js';
export {
  type TimestampOutcome,
  type TimestampOutcomeEvent,
  timestampOutcomes,
} from './stores/timestamp/timestamp-outcomes.js';
export { redisson } from './stores/redisson/redisson.store.js';
export type { RedissonStoreOptions } from './stores/redisson/redisson-options.js';
export { quorum, type QuorumOptions } from './stores/quorum/quorum.store.js';
export type { NodeAddress } from './stores/quorum/quorum-nodes.js';
export { token } from './stores/token/token.store.js';
