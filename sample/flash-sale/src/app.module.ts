import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { memory, RedisLockModule, token } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
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
      // What the board and `GET /goods/:id` call this instance.
      identity: `port-${settings.port}`,
    }),
    // Without a guard, because only this machine can reach the sample. In a real application: guards: [AdminGuard].
    RedisLockBoardModule.forRoot({ route: 'locks', unprotected: true }),
    ScheduleModule.forRoot(),
    GoodsModule,
    ReportModule,
    LiveSaleModule,
  ],
})
export class AppModule {}
