import { Test } from '@nestjs/testing';
import { withMemoryLocks } from 'nestjs-redis-lock/testing';
import { AppModule, StockService } from './quick-start.js';

export async function wholeApplication(): Promise<boolean> {
  const module = await withMemoryLocks(
    Test.createTestingModule({ imports: [AppModule] }),
  ).compile();
  const app = await module.createNestApplication().init();
  await app.get(StockService).restock(300, 1);
  const bought = await app.get(StockService).buy(300);
  await app.close();
  return bought;
}
