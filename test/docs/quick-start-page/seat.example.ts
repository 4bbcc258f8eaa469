import { Test } from '@nestjs/testing';
import { withMemoryLocks } from 'nestjs-redis-lock/testing';
import { AppModule } from './app.module.js';
import { SeatService } from './seat.service.js';

export async function sellOneSeatTwice(): Promise<boolean[]> {
  const module = await withMemoryLocks(
    Test.createTestingModule({ imports: [AppModule] }),
  ).compile();
  const app = await module.createNestApplication().init();
  const seats = app.get(SeatService);
  const sold = await Promise.all([seats.book(7, 'ada'), seats.book(7, 'bob')]);
  await app.close();
  return sold; // [true, false]
}
