import { RedisLockModule } from 'nestjs-redis-lock';
import { sentinels } from './sentinel.js';

export const patient = RedisLockModule.forRoot({
  redis: { sentinels, name: 'mymaster' },
  unavailableAfterMs: 15_000,
});
