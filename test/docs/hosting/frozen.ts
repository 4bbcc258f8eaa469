import { RedisLockModule } from 'nestjs-redis-lock';

export const inAFunction = RedisLockModule.forRoot({
  redis: process.env['REDIS_URL'],
  ttlMs: 10_000, // a frozen function holds its locks for at most this long
  unavailableAfterMs: 2_000, // its connection may have ended
});
