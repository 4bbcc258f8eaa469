// Compiled with `exactOptionalPropertyTypes`, where an option that is `undefined` must be declared so.
import {
  type AssertHeldOptions,
  type CommonLockOptions,
  type DetachOptions,
  type ExtendOptions,
  type HttpOptions,
  type ForceReleaseOptions,
  type LeadOptions,
  type ListOptions,
  Locked,
  type LockedOptions,
  type LockOptions,
  type LockScopeOptions,
  type OnceOptions,
  RedisLockModule,
  type RedisLockModuleOptions,
  type ReplicaOptions,
  type ResumeOptions,
  type WhileLeaderOptions,
  type WrapOptions,
} from 'nestjs-redis-lock';
import type { FencedScript, RedisFenceOptions, SqlFenceOptions } from 'nestjs-redis-lock/fence';
import type { RedisLockBoardOptions } from 'nestjs-redis-lock/board';
import type { RedisLockInstrumentationConfig } from 'nestjs-redis-lock/opentelemetry';
import type { NodeRedisClient } from 'nestjs-redis-lock/node-redis';
import type { LockMetricsOptions } from 'nestjs-redis-lock/prometheus';
import type { QuorumOptions } from 'nestjs-redis-lock/quorum';
import type { RedissonStoreOptions } from 'nestjs-redis-lock/redisson';
import type { CreateLocksOptions } from 'nestjs-redis-lock/standalone';
import type { HealthOptions } from 'nestjs-redis-lock/terminus';
import type { OccupyOptions, TestBenchOptions, TestingOptions } from 'nestjs-redis-lock/testing';
import type { TimestampOptions } from 'nestjs-redis-lock/timestamp';
import type { LockScopeAdapterOptions } from 'nestjs-redis-lock/transactional';

/** All optional properties of a type, each of them undefined. */
type AllUndefined<T> = { [K in keyof T as object extends Pick<T, K> ? K : never]: undefined };

/** Every type of options that the package exports. */
interface Options {
  assertHeld: AssertHeldOptions;
  common: CommonLockOptions;
  http: HttpOptions;
  lock: LockOptions;
  lockScope: LockScopeOptions;
  once: OnceOptions;
  detach: DetachOptions;
  extend: ExtendOptions;
  resume: ResumeOptions;
  locked: LockedOptions<[id: number]>;
  wrap: WrapOptions<[id: number]>;
  createLocks: CreateLocksOptions;
  moduleOptions: RedisLockModuleOptions;
  module: NonNullable<Parameters<typeof RedisLockModule.forRoot>[0]>;
  replicas: ReplicaOptions;
  forceRelease: ForceReleaseOptions;
  lead: LeadOptions;
  list: ListOptions;
  whileLeader: WhileLeaderOptions;
  board: RedisLockBoardOptions;
  fencedScript: FencedScript;
  redisFence: RedisFenceOptions;
  sqlFence: SqlFenceOptions;
  health: HealthOptions;
  nodeRedisClient: NodeRedisClient;
  opentelemetry: RedisLockInstrumentationConfig;
  prometheus: LockMetricsOptions;
  quorum: QuorumOptions;
  redisson: RedissonStoreOptions;
  occupy: OccupyOptions;
  testBench: TestBenchOptions;
  testing: TestingOptions;
  timestamp: TimestampOptions;
  transactional: LockScopeAdapterOptions;
}

/** The names of the options that refuse an optional property that is undefined. */
type Refusing = {
  [K in keyof Options]: AllUndefined<Options[K]> extends Partial<Options[K]> ? never : K;
}[keyof Options];

/** Compiles if none refuses it. */
export const isRefused: [Refusing] extends [never] ? false : Refusing = false;

export const module = RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], name: undefined, ttlMs: undefined });

export class GoodsService {
  @Locked('goods:<id>', { waitMs: undefined, name: undefined, onBusy: undefined, onUnavailable: undefined })
  async buy(id: number): Promise<number> {
    return id;
  }
}
