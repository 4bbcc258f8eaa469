import assert from 'node:assert/strict';
import { it } from 'node:test';
import { getQueueToken } from '@nestjs/bullmq';
import { NestFactory } from '@nestjs/core';
import type { Queue } from 'bullmq';
import { LockService } from 'nestjs-redis-lock';
import { OrdersModule, OrdersProcessor } from '../examples/orders.processor.js';
import { eventually } from './support.js';

it('postpones a job whose lock is busy, and other jobs go on', async () => {
  const app = await NestFactory.createApplicationContext(OrdersModule, { logger: false, abortOnError: false });
  const queue = app.get<Queue>(getQueueToken('orders'));
  const { done } = app.get(OrdersProcessor);
  try {
    const lock = await app.get(LockService).acquire('order:1');
    const { id = '' } = await queue.add('pay', { order: 1 });
    await queue.add('ship', { order: 2 });
    await eventually('the free order is shipped', () => done.includes('ship'));
    await eventually('the busy one is delayed', async () => (await queue.getJobState(id)) === 'delayed');
    assert.deepEqual(done, ['ship']);
    await lock.release();
    await eventually('it is completed', async () => (await queue.getJobState(id)) === 'completed');
    const job = await queue.getJob(id);
    assert.equal(job?.returnvalue, 'order 1: pay');
    // Postponing does not count as an attempt.
    assert.equal(job?.attemptsMade, 1);
    assert.ok(job.attemptsStarted > 1);
  } finally {
    await queue.obliterate({ force: true });
    await app.close();
  }
});
