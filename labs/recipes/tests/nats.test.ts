import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { type INestMicroservice, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type ClientProxy, ClientProxyFactory, type NatsOptions, Transport } from '@nestjs/microservices';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-redis-lock';
import { lastValueFrom } from 'rxjs';
// The example of the page, which another test runs over Redis. run.ts copies it.
import { OrdersConsumer } from './copied/microservice.js';
import { eventually } from './support.js';

const servers = [process.env['NATS_URL'] as string];
let redis: Redis;
let client: ClientProxy;
let instances: INestMicroservice[] = [];
let handled = 0;

before(async () => {
  redis = new Redis(process.env['REDIS_URL'] as string);
  client = ClientProxyFactory.create({ transport: Transport.NATS, options: { servers } });
  await client.connect();
});
after(async () => {
  await client?.close();
  redis?.disconnect();
});

/** Starts two instances, and handles the orders `from` and `from + 1`. */
async function handle(from: number, queue?: string): Promise<void> {
  handled = 0;
  await redis.del('mails');
  const counting = {
    exists: (key: string) => {
      handled += 1;
      return redis.exists(key);
    },
    rpush: redis.rpush.bind(redis),
    set: redis.set.bind(redis),
  };
  @Module({
    imports: [RedisLockModule.forRoot({ redis: process.env['REDIS_URL'], waitMs: 60_000 })],
    controllers: [OrdersConsumer],
    providers: [{ provide: Redis, useValue: counting }],
  })
  class OrdersModule {}
  const options: NatsOptions = { transport: Transport.NATS, options: { servers, queue } };
  const start = async () => {
    const instance = await NestFactory.createMicroservice(OrdersModule, {
      ...options,
      logger: false,
      abortOnError: false,
    });
    await instance.listen();
    return instance;
  };
  instances = [await start(), await start()];
  // A subscription is known to the server when it has replied to a later request of its connection.
  await eventually('it replies', async () => {
    try {
      return (await lastValueFrom(client.send<number>('order.total', { id: 3 }))) === 300;
    } catch {
      return false; // nobody has subscribed yet
    }
  });
  for (const id of [from, from + 1]) {
    client.emit('order.paid', { id });
    await eventually(`order ${id} is handled`, async () => (await redis.exists(`mailed:${id}`)) === 1);
  }
  await eventually('both instances are done', () => handled === (queue === undefined ? 4 : 2));
  for (const instance of instances.splice(0)) await instance.close();
  assert.deepEqual(await redis.lrange('mails', 0, -1), [`order ${from} is paid`, `order ${from + 1} is paid`]);
}

it('handles an event once that NATS sends to every instance', () => handle(17));

it('handles an event once that NATS sends to one instance of a queue group', () => handle(27, 'orders'));
