import { RedisLockModule } from 'nestjs-redis-lock';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { createClient } from 'redis';

const sentinels = [
  { host: 'a', port: 26379 },
  { host: 'b', port: 26379 },
  { host: 'c', port: 26379 },
];

/** It gives its options, such as the password, and is never connected. */
const template = createClient({ password: process.env['REDIS_PASSWORD'] });

export const behindSentinels = RedisLockModule.forRoot({
  redis: fromNodeRedis(template, { sentinels, name: 'mymaster' }),
});
