export { redisson, type RedissonStoreOptions } from './redisson.js';
