// The stacks whose packages take long to load.
import { getQueueToken } from '@nestjs/bullmq';
import { CommandBus } from '@nestjs/cqrs';
import { type INestApplicationContext, Logger as NestLogger, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Logger } from 'nestjs-pino';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Queue } from 'bullmq';
import { LockService, LockTimeoutError } from 'nestjs-redis-lock';
import { eventually } from '../../support/async.js';
import { testRedisUrl, uniquePrefix } from '../../support/shared-redis.js';

const open: INestApplicationContext[] = [];

beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
});
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

async function start(module: Type): Promise<INestApplicationContext> {
  const app = await Test.createTestingModule({ imports: [module] }).compile();
  await app.init();
  open.push(app);
  return app;
}

it('the recipe for BullMQ postpones a job whose lock is busy, and other jobs go on', async () => {
  const { OrdersModule, OrdersProcessor } = await import('./orders.processor.js');
  const app = await start(OrdersModule);
  const queue = app.get<Queue>(getQueueToken('orders'));
  const { done } = app.get(OrdersProcessor);
  try {
    const lock = await app.get(LockService).acquire('order:1');
    const job = await queue.add('pay', { order: 1 });
    await queue.add('ship', { order: 2 });
    await eventually('the free order is shipped', () => done.includes('ship'));
    await eventually('the busy one is delayed', async () => (await queue.getJobState(job.id as string)) === 'delayed');
    expect(done).toEqual(['ship']);
    await lock.release();
    await eventually('it is paid', () => done.includes('pay'));
    await eventually('it is completed', async () => (await queue.getJobState(job.id as string)) === 'completed');
    expect((await queue.getJob(job.id as string))?.attemptsMade).toBeLessThanOrEqual(1);
  } finally {
    await queue.obliterate({ force: true });
  }
});

it('the recipe for CQRS runs commands and their events under locks', async () => {
  const { OrdersModule, PayOrder, ShipOrder } = await import('./pay-order.js');
  const app = await start(OrdersModule);
  const commands = app.get(CommandBus);
  const paid = await Promise.all([1, 2, 3].map((cents) => commands.execute(new PayOrder(7, cents))));
  expect(paid.toSorted((a, b) => a - b).at(-1)).toBe(6);
  const { shipped } = app.get(ShipOrder);
  await eventually('all events are handled', () => shipped.length === 3);
});

it('the recipe for configuration reads the environment', async () => {
  process.env['LOCK_NAMESPACE'] = uniquePrefix().replaceAll('_', '.');
  process.env['LOCK_WAIT_MS'] = '0';
  const { AppModule } = await import('./configured.js');
  const locks = (await start(AppModule)).get(LockService);
  const lock = await locks.acquire('goods:301');
  await expect(locks.acquire('goods:301')).rejects.toThrow(LockTimeoutError);
  const state = await locks.inspect('goods:301');
  expect(state?.key).toContain(process.env['LOCK_NAMESPACE']);
  await lock.release();
  delete process.env['LOCK_NAMESPACE'];
});

describe('the recipe for pino', () => {
  afterEach(() => NestLogger.overrideLogger(undefined as never));

  it('logs the events of locks with their fields', async () => {
    const { loggingTo } = await import('./logging.js');
    const lines: Record<string, unknown>[] = [];
    const app = await start(loggingTo({ write: (line) => void lines.push(JSON.parse(line)) }));
    app.useLogger(app.get(Logger));
    const locks = app.get(LockService);
    await locks.using('goods:302', () => undefined);
    const lock = await locks.acquire('goods:303');
    await locks.forceRelease('goods:303');
    await eventually('it is lost', () => lock.signal.aborted);
    const logged = () => lines.map(({ resource, msg }) => [resource, msg]);
    await eventually('it is logged', () => logged().some(([, msg]) => msg === 'lock lost'));
    expect(logged()).toEqual(
      expect.arrayContaining([
        ['goods:302', 'lock released'],
        ['goods:303', 'lock lost'],
      ]),
    );
  });
});
