// Runs the code of the pages that needs other packages.
import type { ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Locked, LockService, LockTimeoutError, RedisLockModule } from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { load, requirePackage } from './blocks.js';

const open: { close(): Promise<unknown> }[] = [];

beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
});
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const module = await Test.createTestingModule(metadata).compile();
  open.push(module);
  return module.init();
}

const ownLocks = () => RedisLockModule.forRoot({ redis: testRedisUrl(), prefix: uniquePrefix() });

it('the recipe for a cache computes a value once in two instances, and again after a failure', async () => {
  const { ReportModule, ReportService } = load('docs/recipes/index.md', 'ReportModule');
  const day = uniquePrefix();
  let [computed, failures] = [0, 1];
  const compute = async (): Promise<string> => {
    computed += 1;
    failures -= 1;
    if (failures >= 0) throw new Error('the source is broken');
    return 'a report';
  };
  const modules = await Promise.all([1, 2].map(() => start({ imports: [ReportModule] })));
  const services = modules.map((module) => Object.assign(module.get(ReportService), { compute }));
  const calls = services.flatMap((service) => Array.from({ length: 10 }, () => service.report(day)));
  const outcomes = await Promise.allSettled(calls);
  expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  expect(computed).toBe(2);
});

it('the recipe for CQRS runs the commands of one order one at a time, and their events as nested holds', async () => {
  const { CommandBus, CommandHandler, CqrsModule, EventBus, EventsHandler } = requirePackage('@nestjs/cqrs');
  class PayOrder {
    constructor(readonly order: number) {}
  }
  class OrderPaid extends PayOrder {}
  let paid = 0;
  @CommandHandler(PayOrder)
  class PayOrderHandler {
    @Locked('order:<command.order>')
    async execute(command: PayOrder): Promise<number> {
      const before = paid;
      await new Promise((resolve) => setImmediate(resolve));
      paid = before + command.order;
      return paid;
    }
  }
  const seen: number[] = [];
  @EventsHandler(OrderPaid)
  class Audit {
    @Locked('order:<event.order>')
    async handle(event: OrderPaid): Promise<void> {
      seen.push(event.order);
    }
  }
  const module = await start({ imports: [CqrsModule.forRoot(), ownLocks()], providers: [PayOrderHandler, Audit] });
  const commands = module.get(CommandBus);
  await Promise.all([1, 2, 3].map(() => commands.execute(new PayOrder(7))));
  expect(paid).toBe(21);
  await module.get(LockService).using('order:8', async () => {
    module.get(EventBus).publish(new OrderPaid(8));
    await eventually('it is handled while its lock is held', () => seen.length === 1);
  });
});

it('the page on configuration reads the options from the environment', async () => {
  process.env['LOCK_WAIT_MS'] = '0';
  const { AppModule } = load('docs/configuration.md', 'AppModule');
  const locks = (await start({ imports: [AppModule] })).get(LockService);
  expect(locks.defaults.waitMs).toBe(0);
  const resource = `config:${process.pid}`;
  await locks.using(resource, async ({ signal }) => {
    expect(signal.aborted).toBe(false);
    await expect((await start({ imports: [AppModule] })).get(LockService).acquire(resource)).rejects.toThrow(
      LockTimeoutError,
    );
  });
});
