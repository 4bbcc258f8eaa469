import { RedisLockModule } from 'nestjs-redis-lock';

export const sentinels = [
  { host: 'a', port: 26379 },
  { host: 'b', port: 26379 },
  { host: 'c', port: 26379 },
];

export const behindSentinels = RedisLockModule.forRoot({ redis: { sentinels, name: 'mymaster' } });
