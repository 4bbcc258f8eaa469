import { Injectable } from '@nestjs/common';
import { Locked, type LockUnavailableError } from 'nestjs-redis-lock';

@Injectable()
export class ReportService {
  @Locked('report:<day>', { onUnavailable: computeWithoutLock })
  async report(day: string): Promise<string> {
    return this.compute(day);
  }

  async compute(day: string): Promise<string> {
    return `the report of ${day}`;
  }
}

function computeWithoutLock(
  this: ReportService,
  _error: LockUnavailableError,
  day: string,
): Promise<string> {
  return this.compute(day);
}
