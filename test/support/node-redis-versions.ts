import * as redis5 from 'redis-5';
import { NODE_REDIS, nodeRedis, type NodeRedisLibrary } from './client-libraries.js';

export const REDIS_5 = nodeRedis('redis 5', redis5);

/** All versions of node-redis. */
export const NODE_REDIS_VERSIONS: readonly NodeRedisLibrary[] = [...NODE_REDIS, REDIS_5];
