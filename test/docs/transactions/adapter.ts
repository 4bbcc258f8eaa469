import { Injectable, Module } from '@nestjs/common';
import { ClsPluginTransactional, Transactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { RedisLockModule } from 'nestjs-redis-lock';
import { withLockScope } from 'nestjs-redis-lock/transactional';
import { DataSource } from 'typeorm';
import { Goods, StockService } from './right-order.js';

@Injectable()
export class OrderService {
  constructor(private readonly stock: StockService) {}

  @Transactional()
  async order(ids: readonly number[]): Promise<void> {
    for (const id of ids) await this.stock.sell(id); // its lock is kept until the commit
  }
}

const database = {
  provide: DataSource,
  useFactory: () =>
    new DataSource({
      type: 'postgres',
      url: process.env['DATABASE_URL'],
      entities: [Goods],
    }).initialize(),
};

@Module({ providers: [database], exports: [database] })
class DatabaseModule {}

@Module({
  imports: [
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
    ClsModule.forRoot({
      plugins: [
        new ClsPluginTransactional({
          imports: [DatabaseModule],
          adapter: withLockScope(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
        }),
      ],
    }),
    DatabaseModule,
  ],
  providers: [OrderService, StockService],
})
export class ShopModule {}
