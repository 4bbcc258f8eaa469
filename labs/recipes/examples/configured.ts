import { Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { RedisLockModule } from 'nestjs-redis-lock';

@Module({
  imports: [
    ConfigModule.forRoot({ isGlobal: true }),
    RedisLockModule.forRootAsync({
      inject: [ConfigService],
      useFactory: (config: ConfigService) => ({
        redis: config.getOrThrow<string>('REDIS_URL'),
        prefix: config.get<string>('LOCK_PREFIX'),
        waitMs: Number(config.get<string>('LOCK_WAIT_MS', '5000')), // variables are strings
      }),
    }),
  ],
})
export class AppModule {}
