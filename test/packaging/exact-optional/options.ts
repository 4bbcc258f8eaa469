// Compiled with `exactOptionalPropertyTypes`, where an option that is `undefined` must be declared so.
import {
  type AssertHeldOptions,
  type HttpOptions,
  type ForceReleaseOptions,
  type LeadOptions,
  type ListOptions,
  Locked,
  type LockedOptions,
  type LockOptions,
  type LockScopeOptions,
  RedisLockModule,
  type RedisLockModuleExtras,
  type RedisLockModuleOptions,
  type ReplicaOptions,
  type WhileLeaderOptions,
} from 'nestjs-redis-lock';
import type { FencedScript, RedisFenceOptions, SqlFenceOptions } from 'nestjs-redis-lock/fence';
import type { RedisLockBoardOptions } from 'nestjs-redis-lock/board';
import type { RedisLockInstrumentationConfig } from 'nestjs-redis-lock/opentelemetry';
import type { NodeRedisClient } from 'nestjs-redis-lock/node-redis';
import type { LockMetricsOptions } from 'nestjs-redis-lock/prometheus';
import type { QuorumOptions } from 'nestjs-redis-lock/quorum';
import type { RedissonStoreOptions } from 'nestjs-redis-lock/redisson';
import type { HealthOptions } from 'nestjs-redis-lock/terminus';
import type { OccupyOptions, TestBenchOptions, TestingOptions } from 'nestjs-redis-lock/testing';
import type { TimestampOptions } from 'nestjs-redis-lock/timestamp';
import type { LockScopeAdapterOptions } from 'nestjs-redis-lock/transactional';

/** All optional properties of a type, each of them undefined. */
type AllUndefined<T> = { [K in keyof T as object extends Pick<T, K> ? K : never]: undefined };

/** Compiles if every optional property of the type may be undefined. */
type Accepts<T> = (given: AllUndefined<T>) => Partial<T>;

export const accepted: {
  assertHeld: Accepts<AssertHeldOptions>;
  http: Accepts<HttpOptions>;
  lock: Accepts<LockOptions>;
  lockScope: Accepts<LockScopeOptions>;
  locked: Accepts<LockedOptions<[id: number]>>;
  module: Accepts<RedisLockModuleOptions>;
  extras: Accepts<RedisLockModuleExtras>;
  replicas: Accepts<ReplicaOptions>;
  forceRelease: Accepts<ForceReleaseOptions>;
  lead: Accepts<LeadOptions>;
  list: Accepts<ListOptions>;
  whileLeader: Accepts<WhileLeaderOptions>;
  board: Accepts<RedisLockBoardOptions>;
  fencedScript: Accepts<FencedScript>;
  redisFence: Accepts<RedisFenceOptions>;
  sqlFence: Accepts<SqlFenceOptions>;
  health: Accepts<HealthOptions>;
  nodeRedisClient: Accepts<NodeRedisClient>;
  opentelemetry: Accepts<RedisLockInstrumentationConfig>;
  prometheus: Accepts<LockMetricsOptions>;
  quorum: Accepts<QuorumOptions>;
  redisson: Accepts<RedissonStoreOptions>;
  occupy: Accepts<OccupyOptions>;
  testBench: Accepts<TestBenchOptions>;
  testing: Accepts<TestingOptions>;
  timestamp: Accepts<TimestampOptions>;
  transactional: Accepts<LockScopeAdapterOptions>;
} = {
  assertHeld: (given) => given,
  http: (given) => given,
  lock: (given) => given,
  lockScope: (given) => given,
  locked: (given) => given,
  module: (given) => given,
  extras: (given) => given,
  replicas: (given) => given,
  forceRelease: (given) => given,
  lead: (given) => given,
  list: (given) => given,
  whileLeader: (given) => given,
  board: (given) => given,
  fencedScript: (given) => given,
  redisFence: (given) => given,
  sqlFence: (given) => given,
  health: (given) => given,
  nodeRedisClient: (given) => given,
  opentelemetry: (given) => given,
  prometheus: (given) => given,
  quorum: (given) => given,
  redisson: (given) => given,
  occupy: (given) => given,
  testBench: (given) => given,
  testing: (given) => given,
  timestamp: (given) => given,
  transactional: (given) => given,
};

export const module = RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], name: undefined, ttlMs: undefined });

export class GoodsService {
  @Locked('goods:<id>', { waitMs: undefined, name: undefined, onBusy: undefined, onUnavailable: undefined })
  async buy(id: number): Promise<number> {
    return id;
  }
}
