import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { SeatController } from './seat.controller.js';
import { SeatService } from './seat.service.js';

@Module({
  imports: [
    RedisLockModule.forRoot({
      redis: process.env['REDIS_URL'],
      prefix: 'theatre:lock_',
      shutdownGraceMs: process.env['NODE_ENV'] === 'production' ? 5_000 : 0,
    }),
  ],
  controllers: [SeatController],
  providers: [SeatService],
})
export class AppModule {}
