import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';

@Module({
  imports: [
    RedisLockModule.forRootAsync({
      useFactory: () => ({
        redis: process.env['REDIS_URL'], // redis://acme:…@redis.example, the user of this tenant
        namespace: process.env['TENANT'], // acme: {acme:lock_goods}:300
      }),
    }),
  ],
})
export class TenantModule {}
