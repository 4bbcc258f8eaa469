import { TransactionHost } from '@nestjs-cls/transactional';
import { RedisLockModule } from 'nestjs-redis-lock';

export const locks = RedisLockModule.forRoot({
  redis: process.env['REDIS_URL'],
  inTransaction: () => TransactionHost.getInstance().isTransactionActive(),
});
