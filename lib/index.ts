import 'reflect-metadata';

export * from './locks.js';
export { RedisLockModule, type RedisLockModuleAsyncOptions, type RedisLockOptionsFactory } from './nest/module.js';
export type { HttpOptions, RedisLockModuleOptions } from './options/redis-lock.options.js';
export { bindLocks } from './nest/bind.js';
export { getLockServiceToken, InjectLockService } from './nest/service-token.js';
export { Locked, type LockedOptions } from './nest/locked.js';
export type { LockedDecorator } from './nest/method-types.js';
export { LockScope } from './nest/scope.js';
export { LockExceptionFilter } from './nest/lock-exception.filter.js';
export { WhileLeader, type WhileLeaderOptions } from './nest/leader.js';
export { CurrentLock, LockParam } from './nest/parameters.js';
