import { RedisLockModule } from 'nestjs-redis-lock';

export const inACluster = RedisLockModule.forRoot({
  redis: { nodes: ['redis://a:6379', 'redis://b:6379'], redisOptions: { password: 'secret' } },
});
