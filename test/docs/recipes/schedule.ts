import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

@Injectable()
export class NightlyReport {
  readonly sent: string[] = [];

  constructor(private readonly redis: Redis) {}

  @Cron('0 0,30 3-5 * * *', { name: 'nightly', timeZone: 'UTC' }) // several runs, in case one fails
  @Locked('nightly-report', { waitMs: 0, onBusy: 'skip' })
  async run(@CurrentLock() lock?: Lock): Promise<void> {
    const today = new Date().toISOString().slice(0, 10);
    if ((await this.redis.get('nightly-report:done')) === today) return;
    for (const customer of ['acme', 'globex']) {
      lock?.assertHeld(); // stops a job that has lost its lock
      this.sent.push(`${today} ${customer}`);
    }
    await this.redis.set('nightly-report:done', today);
  }
}
