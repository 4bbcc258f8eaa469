import { RedisLockModule } from 'nestjs-redis-lock';

const sentinels = [
  { host: 'a', port: 26379 },
  { host: 'b', port: 26379 },
  { host: 'c', port: 26379 },
];

export const behindSentinels = RedisLockModule.forRoot({ redis: { sentinels, name: 'mymaster' } });

export const replicated = RedisLockModule.forRoot({
  redis: { sentinels, name: 'mymaster' },
  replicas: { min: 1, timeoutMs: 50 },
});

export const patient = RedisLockModule.forRoot({
  redis: { sentinels, name: 'mymaster' },
  unavailableAfterMs: 15_000,
});
