export { fromNodeRedis } from './from-node-redis.js';
export type { MessageListener, NodeRedisClient, NodeRedisCluster, NodeRedisShard } from './node-redis.js';
