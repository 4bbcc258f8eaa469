import { quorum } from 'nestjs-redis-lock/quorum';
import { RedisLockModule } from 'nestjs-redis-lock';

export const onThreeMasters = RedisLockModule.forRoot({
  store: quorum(['redis://a:6379', 'redis://b:6379', 'redis://c:6379']),
});
