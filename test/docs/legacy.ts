import { Injectable, Module } from '@nestjs/common';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { legacyLocks } from './legacy-locks.js';

@Injectable()
export class AccountService {
  constructor(
    @InjectLockService('legacy') private readonly legacy: LockService,
    private readonly locks: LockService,
  ) {}

  // Step 1: the old lock, and the new one inside it.
  change(id: string, work: () => Promise<void>): Promise<void> {
    return this.legacy.using(`account:${id}`, () => this.locks.using(`account:${id}`, work));
  }
}

@Module({
  imports: [legacyLocks, RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] })],
  providers: [AccountService],
})
export class AccountModule {}
