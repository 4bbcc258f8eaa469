export { type ClusterMember, clusterPort, RedisCluster, type RedisClusterStart } from './cluster.ts';
export { RedisNotFoundError, resolveRedis, startRedis } from './resolve.ts';
export type { ResolveOptions } from './resolve.ts';
export type { RedisKind, RedisServer, RedisSource, StartOptions } from './types.ts';
