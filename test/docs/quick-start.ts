import { Controller, Injectable, Module, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Locked, LockService, RedisLockModule, resource } from 'nestjs-redis-lock';

@Injectable()
export class StockService {
  private readonly stock = new Map<number, number>(); // stands in for a database
  constructor(private readonly locks: LockService) {}

  @Locked('goods:<id>') // locks goods:300 under the Redis key {lock_goods}:300
  buy(id: number): Promise<boolean> {
    const left = this.stock.get(id) ?? 0;
    if (left > 0) this.stock.set(id, left - 1);
    return Promise.resolve(left > 0);
  }

  restock(id: number, amount: number): Promise<number> {
    return this.locks.using(resource`goods:${id}`, (lock) => {
      const left = (this.stock.get(id) ?? 0) + amount;
      lock.assertHeld(); // right before a write that needs the lock
      this.stock.set(id, left);
      return lock.fencingToken;
    });
  }
}

@Controller('goods')
export class GoodsController {
  constructor(private readonly stock: StockService) {}

  @Post(':id/buyers/:user')
  @Locked('checkout:<user>', { waitMs: 0 }) // a second click gets 423 Locked with Retry-After
  buy(@Param('id', ParseIntPipe) id: number, @Param('user') _user: string) {
    return this.stock.buy(id);
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  controllers: [GoodsController],
  providers: [StockService],
})
export class AppModule {}
