import { Module } from '@nestjs/common';
import { GoodsModule } from '../goods/goods.module.js';
import { settings } from '../settings.js';
import { BuyersService } from './buyers.service.js';
import { LiveSaleController } from './live-sale.controller.js';
import { LiveSaleService } from './live-sale.service.js';
import { PageController } from './page.controller.js';
import { MemorySaleLog, RedisSaleLog, SaleLog } from './sale-log.js';

@Module({
  imports: [GoodsModule],
  controllers: [PageController, LiveSaleController],
  providers: [
    LiveSaleService,
    BuyersService,
    {
      provide: SaleLog,
      useFactory: (): SaleLog => (settings.inMemory ? new MemorySaleLog() : new RedisSaleLog(settings.redisUrl)),
    },
  ],
})
export class LiveSaleModule {}
