import { Controller, Module, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';
import { createTestBench, withMemoryLocks } from 'nestjs-redis-lock/testing';

@Controller('orders')
export class OrdersController {
  @Post(':id/pay')
  @Locked('order:<id>')
  async pay(@Param('id', ParseIntPipe) id: number): Promise<string> {
    return `order ${id} is paid`;
  }
}

@Module({ imports: [RedisLockModule.forRoot()], controllers: [OrdersController] })
export class AppModule {}

export async function statuses(): Promise<number[]> {
  const bench = createTestBench();
  const builder = Test.createTestingModule({ imports: [AppModule] });
  const module = await withMemoryLocks(builder, { bench }).compile();
  const app = module.createNestApplication();
  await app.listen(0, '127.0.0.1');
  const url = `${await app.getUrl()}/orders/7/pay`;
  const pay = async (): Promise<number> => (await fetch(url, { method: 'POST' })).status;
  try {
    const occupied = await bench.occupy('order:7');
    const busy = await pay(); // 423
    await occupied.release();
    bench.unavailable();
    const withoutRedis = await pay(); // 503
    bench.unavailable(false);
    return [busy, withoutRedis, await pay()];
  } finally {
    await app.close();
  }
}
