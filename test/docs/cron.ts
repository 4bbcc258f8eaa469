import { Injectable } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { Locked } from 'nestjs-redis-lock';

@Injectable()
export class ReportService {
  @Cron(CronExpression.EVERY_HOUR)
  @Locked('report', { waitMs: 0, minHoldMs: 10_000, onBusy: 'skip' })
  async hourly(): Promise<void> {
    // runs on one instance only, even if their clocks differ by up to ten seconds
  }
}
