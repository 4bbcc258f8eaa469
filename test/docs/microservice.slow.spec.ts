import { Test } from '@nestjs/testing';
import { type ClientProxy, ClientProxyFactory, type RedisOptions, Transport } from '@nestjs/microservices';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { INestMicroservice } from '@nestjs/common';
import { Redis } from 'ioredis';
import { RedisLockModule } from 'nestjs-redis-lock';
import { lastValueFrom } from 'rxjs';
import { eventually } from '../support/async.js';
import { type RedisServer, startRedis } from '../support/redis/index.js';
import { load } from './blocks.js';

let server: RedisServer;
let redis: Redis;
let client: ClientProxy;
const instances: INestMicroservice[] = [];

beforeAll(async () => {
  const { OrdersConsumer } = load('docs/recipes/messages.md', 'OrdersConsumer');
  server = await startRedis({ local: true });
  redis = new Redis(server.url);
  const overRedis: RedisOptions = { transport: Transport.REDIS, options: { host: '127.0.0.1', port: server.port } };
  for (let i = 0; i < 2; i += 1) {
    const module = await Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ redis: server.url })],
      controllers: [OrdersConsumer],
      providers: [{ provide: Redis, useValue: redis }],
    }).compile();
    const instance = module.createNestMicroservice<RedisOptions>(overRedis);
    await instance.listen();
    instances.push(instance);
  }
  client = ClientProxyFactory.create(overRedis);
  await client.connect();
});
afterAll(async () => {
  await client?.close();
  for (const instance of instances) await instance.close();
  redis?.disconnect();
  await server?.stop();
});

it('the recipe for microservices handles each event once in two instances, and replies', async () => {
  // Both instances subscribe in the background.
  await eventually('both instances receive events', async () => {
    const [, subscribers] = (await redis.pubsub('NUMSUB', 'order.paid')) as [string, number];
    return subscribers === 2;
  });
  client.emit('order.paid', { id: 7 });
  await eventually('it is handled', async () => (await redis.exists('mailed:7')) === 1);
  client.emit('order.paid', { id: 8 });
  await eventually('the next is handled', async () => (await redis.exists('mailed:8')) === 1);
  expect(await lastValueFrom(client.send<number>('order.total', { id: 3 }))).toBe(300);
  await eventually('no lock is held', async () => (await redis.keys('{lock_order}:*')).length === 0);
  expect(await redis.lrange('mails', '0', '-1')).toEqual(['order 7 is paid', 'order 8 is paid']);
});
