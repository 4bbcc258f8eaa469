import { Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { Locked } from 'nestjs-redis-lock';
import { Stock } from '../goods/stock.js';
import { settings } from '../settings.js';

export const REPORT = 'report';

@Injectable()
export class ReportService {
  private readonly logger = new Logger(ReportService.name);

  constructor(private readonly stock: Stock) {}

  /**
   * Starts on every instance in the same second. The first one acquires the lock and reports, the others skip. The
   * report takes 1 ms. `minHoldMs` keeps the lock held for instances whose clocks are late. main.ts starts the job.
   */
  @Cron(CronExpression.EVERY_10_SECONDS, { name: REPORT, disabled: true })
  @Locked('report', { waitMs: 0, minHoldMs: 5_000, onBusy: 'skip' })
  async report(): Promise<void> {
    const levels = await this.stock.findAll();
    const lines = levels.map(({ id, left, sold }) => `goods ${id}: ${sold} sold, ${left} left`);
    this.logger.log(`Report by the instance on port ${settings.port}: ${lines.join('; ') || 'no goods yet'}`);
  }
}
