import { RedisLockInstrumentation } from 'nestjs-redis-lock/opentelemetry';

export const lockInstrumentation = new RedisLockInstrumentation();
