import { AsyncLocalStorage } from 'node:async_hooks';
import { RedisLockModule } from 'nestjs-redis-lock';

const open = new AsyncLocalStorage<boolean>();

/** Runs work that opens a transaction, such as `() => dataSource.transaction(…)`. */
export function remembered<T>(work: () => Promise<T>): Promise<T> {
  return open.run(true, work);
}

export const locks = RedisLockModule.forRoot({
  redis: process.env['REDIS_URL'],
  inTransaction: () => open.getStore() === true,
});
