import { Test } from '@nestjs/testing';
import { expect, it } from '@jest/globals';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { startRedis } from '../support/redis/index.js';
import { load, requirePackage } from './blocks.js';

it('the recipe for BullMQ postpones a job whose lock is busy, and other jobs go on', async () => {
  const { BullModule, getQueueToken } = requirePackage('@nestjs/bullmq');
  const { OrdersProcessor } = load('docs/recipes/index.md', 'OrdersProcessor');
  const server = await startRedis({ local: true });
  const module = await Test.createTestingModule({
    imports: [
      RedisLockModule.forRoot({ redis: server.url }),
      BullModule.forRoot({ connection: { url: server.url } }),
      BullModule.registerQueue({ name: 'orders' }),
    ],
    providers: [OrdersProcessor],
  }).compile();
  try {
    await module.init();
    const queue = module.get(getQueueToken('orders'));
    const { done } = module.get(OrdersProcessor);
    const lock = await module.get(LockService).acquire('order:1');
    const { id } = await queue.add('pay', { order: 1 });
    await queue.add('ship', { order: 2 });
    await eventually('the free order is shipped', () => done.includes('ship'));
    await eventually('the busy one is delayed', async () => (await queue.getJobState(id)) === 'delayed');
    expect(done).toEqual(['ship']);
    await lock.release();
    await eventually('it is completed', async () => (await queue.getJobState(id)) === 'completed');
    const job = await queue.getJob(id);
    expect(job.returnvalue).toBe('order 1: pay');
    // Postponing does not count as an attempt.
    expect(job.attemptsMade).toBe(1);
    expect(job.attemptsStarted).toBeGreaterThan(1);
  } finally {
    await module.close();
    await server.stop();
  }
});
