export { type HealthOptions, RedisLockHealthIndicator } from './redis-lock.health.js';
