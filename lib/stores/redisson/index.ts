export { redisson } from './redisson.store.js';
export type { RedissonStoreOptions } from './redisson-options.js';
