export { fromNodeRedis } from './from-node-redis.js';
export type { MessageListener, NodeRedisClient } from './node-redis-client.js';
export type { NodeRedisCluster, NodeRedisShard } from './node-redis-cluster.js';
