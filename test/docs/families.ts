import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';

@Module({
  imports: [
    RedisLockModule.forRoot({
      ttlMs: 30_000,
      families: {
        goods: { waitMs: 500 }, // goods:300 and all other goods
        report: { ttlMs: 120_000, waitMs: 0, onBusy: 'skip' },
      },
    }),
  ],
})
export class ShopModule {}
