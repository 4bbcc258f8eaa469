export { fromNodeRedis } from './from-node-redis.js';
export type { MessageListener, NodeRedisClient } from './node-redis.js';
