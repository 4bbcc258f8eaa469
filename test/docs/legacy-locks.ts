import { RedisLockModule } from 'nestjs-redis-lock';
import { timestamp } from 'nestjs-redis-lock/timestamp';

export const legacyLocks = RedisLockModule.forRoot({
  name: 'legacy',
  redis: process.env['REDIS_URL'],
  store: timestamp({ unit: 's' }),
  ttlMs: 10_000, // the lease: whole seconds
  key: (resource) => `${resource}_lock`, // account:1 has the key account:1_lock
});
