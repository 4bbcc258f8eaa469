import {
  type BeforeApplicationShutdown,
  Controller,
  Get,
  ServiceUnavailableException,
} from '@nestjs/common';
import { setTimeout } from 'node:timers/promises';
import { LockService } from 'nestjs-redis-lock';

/** The balancer checks every second. */
const NOTICED_MS = 3_000;

@Controller('ready')
export class ReadyController implements BeforeApplicationShutdown {
  constructor(private readonly locks: LockService) {}

  @Get()
  ready(): string {
    if (this.locks.isShuttingDown) throw new ServiceUnavailableException('shutting down');
    return 'ready';
  }

  async beforeApplicationShutdown(): Promise<void> {
    await setTimeout(NOTICED_MS);
  }
}
