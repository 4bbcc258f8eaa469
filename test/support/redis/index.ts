export { adminOf } from './admin.ts';
export {
  type ClusterMember,
  clusterPort,
  DETECTS_FAILURES_MS,
  RedisCluster,
  type RedisClusterStart,
} from './cluster.ts';
export { RedisNotFoundError, resolveRedis, startRedis } from './resolve.ts';
export type { ResolveOptions } from './resolve.ts';
export type { RedisServer, RedisSource, StartOptions } from './types.ts';
