import { Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { SentryGlobalFilter, SentryModule } from '@sentry/nestjs/setup';
import { RedisLockModule } from 'nestjs-redis-lock';

@Module({
  imports: [SentryModule.forRoot(), RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  providers: [{ provide: APP_FILTER, useClass: SentryGlobalFilter }],
})
export class AppModule {}
