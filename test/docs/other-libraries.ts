import { RedisLockModule, token } from 'nestjs-redis-lock';

export const besideOthers = RedisLockModule.forRoot({
  redis: process.env['REDIS_URL'],
  store: token(),
  // The resource is the key. Without this option, `account:1` has the key `{lock_account}:1`.
  key: (resource) => resource,
});
