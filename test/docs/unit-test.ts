import { Test } from '@nestjs/testing';
import { RedisLockTestingModule, withLocks } from 'nestjs-redis-lock/testing';
import { StockService } from './quick-start.js';

export async function inAModule(): Promise<boolean> {
  const module = await Test.createTestingModule({
    imports: [RedisLockTestingModule.forRoot()], // real locks, in memory
    providers: [StockService],
  }).compile();
  const stock = module.get(StockService);
  await stock.restock(300, 1);
  return stock.buy(300);
}

export async function byHand(): Promise<boolean> {
  const stock = withLocks(new StockService(null as never));
  return stock.buy(300);
}
