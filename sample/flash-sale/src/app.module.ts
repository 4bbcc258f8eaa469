import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { memory, RedisLockModule, token } from 'nestjs-redis-lock';
import { GoodsModule } from './goods/goods.module.js';
import { LiveSaleModule } from './live/live-sale.module.js';
import { ReportModule } from './report/report.module.js';
import { settings } from './settings.js';

@Module({
  imports: [
    RedisLockModule.forRoot({
      redis: settings.redisUrl,
      store: settings.inMemory ? memory() : token(),
      prefix: 'flash-sale_',
      // Buyers queue in a sale: wait twice the default, then reply 423 Locked.
      waitMs: 10_000,
    }),
    ScheduleModule.forRoot(),
    GoodsModule,
    ReportModule,
    LiveSaleModule,
    // MERGE: add the board of live locks here, at /locks: RedisLockBoardModule.forRoot({ unprotected: true }).
  ],
})
export class AppModule {}
