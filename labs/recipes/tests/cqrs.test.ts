import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CommandBus, EventBus, EventsHandler } from '@nestjs/cqrs';
import { Locked, LockService } from 'nestjs-redis-lock';
import { OrderPaid, OrdersModule, PayOrder, ShipOrder } from './pay-order.js';
import { eventually, times } from './support.js';

it('runs the commands of one order one at a time, and their events', async () => {
  const app = await NestFactory.createApplicationContext(OrdersModule, { logger: false, abortOnError: false });
  await app.init();
  try {
    const commands = app.get(CommandBus);
    const paid = await times(5, () => commands.execute(new PayOrder(7, 10)));
    assert.deepEqual(
      paid.toSorted((a, b) => a - b),
      [10, 20, 30, 40, 50],
    );
    const { shipped } = app.get(ShipOrder);
    await eventually('all events are handled', () => shipped.length === 5);
  } finally {
    await app.close();
  }
});

@EventsHandler(OrderPaid)
class Audit {
  readonly seen: number[] = [];

  @Locked('order:<event.order>')
  async handle(event: OrderPaid): Promise<void> {
    this.seen.push(event.order);
  }
}

@Module({ imports: [OrdersModule], providers: [Audit] })
class AuditedModule {}

it('gives an event handler the lock of its command at once, as a nested hold', async () => {
  const app = await NestFactory.createApplicationContext(AuditedModule, { logger: false, abortOnError: false });
  await app.init();
  try {
    const { seen } = app.get(Audit);
    await app.get(LockService).using('order:8', async () => {
      app.get(EventBus).publish(new OrderPaid(8));
      await eventually('it is handled while its lock is held', () => seen.length === 1);
    });
    assert.equal(await app.get(LockService).inspect('order:8'), null);
  } finally {
    await app.close();
  }
});
