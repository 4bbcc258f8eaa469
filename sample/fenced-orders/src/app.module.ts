import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { OrdersModule } from './orders/orders.module.js';
import { settings } from './settings.js';

@Module({
  imports: [
    RedisLockModule.forRoot({
      redis: settings.redisUrl,
      prefix: 'fenced-orders_',
      ttlMs: settings.leaseMs,
      waitMs: 10_000,
    }),
    OrdersModule,
  ],
})
export class AppModule {}
