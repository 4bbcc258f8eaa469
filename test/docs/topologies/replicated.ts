import { RedisLockModule } from 'nestjs-redis-lock';
import { sentinels } from './sentinel.js';

export const replicated = RedisLockModule.forRoot({
  redis: { sentinels, name: 'mymaster' },
  replicas: { min: 1, timeoutMs: 50 },
});
