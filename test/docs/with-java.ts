import { RedisLockModule } from 'nestjs-redis-lock';
import { redisson } from 'nestjs-redis-lock/redisson';

export const sharedWithJava = RedisLockModule.forRoot({
  redis: process.env['REDIS_URL'],
  store: redisson(),
  // Redisson's name is the key. Without this option, `account:1` has the key `{lock_account}:1`.
  key: (resource) => resource,
});
