import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { type Leadership, LockService } from 'nestjs-redis-lock';

@Injectable()
export class CleanUpService implements OnApplicationBootstrap {
  private leadership?: Leadership;
  removed = 0;

  constructor(private readonly locks: LockService) {}

  onApplicationBootstrap(): void {
    this.leadership = this.locks.lead('clean-up');
  }

  @Cron(CronExpression.EVERY_MINUTE)
  async everyMinute(): Promise<void> {
    if (!this.leadership?.isLeader) return;
    await this.removeOldOrders(this.leadership.signal);
  }

  private async removeOldOrders(signal: AbortSignal): Promise<void> {
    for (let batch = 0; batch < 3 && !signal.aborted; batch += 1) this.removed += 100;
  }
}
