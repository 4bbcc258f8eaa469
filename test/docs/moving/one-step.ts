import { Injectable, Module } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';

@Injectable()
export class AccountService {
  @Locked('account:<id>', { ttlMs: 60_000 })
  async pay(id: string): Promise<string> {
    return `account ${id} is paid`;
  }

  // The exact key. A placeholder would encode values: `a b` becomes `a%20b`.
  @Locked((id: string) => `account:${id}`)
  async close(id: string): Promise<string> {
    return `account ${id} is closed`;
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({
      redis: process.env['REDIS_URL'],
      key: (resource) => `mutex:${resource}`, // the format of redis-semaphore
      waitMs: 10_000, // as long as the old code tried
    }),
  ],
  providers: [AccountService],
})
export class AccountModule {}
