import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { DelayedError, type Job } from 'bullmq';
import { Locked, type LockTimeoutError, RedisLockModule } from 'nestjs-redis-lock';

export interface OrderJob {
  readonly order: number;
}

@Processor('orders', { concurrency: 20 })
export class OrdersProcessor extends WorkerHost {
  readonly done: string[] = [];

  @Locked('order:<job.data.order>', { waitMs: 0, onBusy: postpone })
  async process(job: Job<OrderJob>, _token?: string): Promise<string> {
    this.done.push(job.name);
    return `order ${job.data.order}: ${job.name}`;
  }
}

/** Frees this worker for another job. The worker passes BullMQ's own `token` to `process`. */
async function postpone(
  error: LockTimeoutError,
  job: Job<OrderJob>,
  token?: string,
): Promise<never> {
  await job.moveToDelayed(Date.now() + 1_000, token);
  throw new DelayedError(error.message);
}

@Module({
  imports: [
    RedisLockModule.forRoot({ redis: process.env['REDIS_URL'] }),
    BullModule.forRoot({ connection: { url: process.env['REDIS_URL'] } }),
    BullModule.registerQueue({ name: 'orders' }),
  ],
  providers: [OrdersProcessor],
})
export class OrdersModule {}
