import { Logger, Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { fromNodeRedis } from 'nestjs-redis-lock/node-redis';
import { createClient } from 'redis';

export const redis = createClient({ url: process.env['REDIS_URL'] });
redis.on('error', ({ message }) => new Logger('Redis').warn(message));

@Module({
  imports: [
    RedisLockModule.forRootAsync({
      useFactory: async () => {
        await redis.connect();
        return { redis: fromNodeRedis(redis) };
      },
    }),
  ],
})
export class AppModule {}
