import KeyvRedis from '@keyv/redis';
import { CACHE_MANAGER, type Cache, CacheModule } from '@nestjs/cache-manager';
import { Inject, Injectable, Module } from '@nestjs/common';
import { LockService, RedisLockModule, resource } from 'nestjs-redis-lock';

@Injectable()
export class ReportService {
  constructor(
    @Inject(CACHE_MANAGER) private readonly cache: Cache,
    private readonly locks: LockService,
  ) {}

  async report(day: string): Promise<string> {
    const key = resource`report:${day}`;
    const cached = await this.cache.get<string>(key);
    if (cached !== undefined) return cached; // no lock for a hit
    return this.locks.using(key, { waitMs: 20_000 }, async () => {
      const meanwhile = await this.cache.get<string>(key); // another caller may have computed it
      if (meanwhile !== undefined) return meanwhile;
      const computed = await this.compute(day);
      await this.cache.set(key, computed, 60_000);
      return computed;
    });
  }

  protected async compute(day: string): Promise<string> {
    return `the report of ${day}`;
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
    CacheModule.registerAsync({
      useFactory: () => ({ stores: [new KeyvRedis(process.env['REDIS_URL'])] }),
    }),
  ],
  providers: [ReportService],
})
export class ReportModule {}
