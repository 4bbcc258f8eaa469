import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';

@Module({
  imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], prefix: 'shop:lock_' })],
})
export class AppModule {}
