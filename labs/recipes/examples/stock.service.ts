import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, LockParam, RedisLockModule } from 'nestjs-redis-lock';

@Injectable()
export class StockService {
  @Locked('goods:<id>')
  async sell(@LockParam('id') id: number): Promise<string> {
    return `goods ${id} are sold`;
  }

  @Locked('goods:<0>') // the first argument, whatever its name is
  async count(id: number): Promise<string> {
    return `goods ${id} are counted`;
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  providers: [StockService],
})
export class AppModule {}

export async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
  const stock = app.get(StockService);
  process.stdout.write(`${await stock.sell(1)}, ${await stock.count(1)}\n`);
  await app.close();
}
