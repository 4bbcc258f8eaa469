export type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ForceReleaseRequest,
  GrantedTokens,
  Handoff,
  HandoffOptions,
  HolderHint,
  HolderInfo,
  LockMode,
  LockModeKind,
  LockOwnership,
  LockState,
  LockStore,
  ReleaseRequest,
  RetryPolicy,
  ShortestLease,
  StoreCapabilities,
  StoreListener,
  WaiterInfo,
} from '../core/store/lock-store.js';
export type { Clock, Timer } from '../core/time/clock.js';
export type { RedisClient, RedisEndpoint, RedisSubscriber, ReplicaConnection } from '../redis/redis-client.js';
export type { ReplicaDemand, StoreContext, StoreFactory } from './store-context.js';
