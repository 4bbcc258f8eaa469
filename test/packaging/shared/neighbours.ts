// Handlers that gRPC and BullMQ call, by `node:assert`: `node out/neighbours.js` in a consumer.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import * as loader from '@grpc/proto-loader';
import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Controller, type DynamicModule, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { GrpcMethod, type MicroserviceOptions, Transport } from '@nestjs/microservices';
import { type Job, Queue } from 'bullmq';
import { Locked, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { Observable, of } from 'rxjs';
import { redisUrl } from './smoke.js';

const PROTO = `
syntax = "proto3";
package seats;
service Seats {
  rpc Book (Seat) returns (Reply);
  rpc Indirect (Seat) returns (Reply);
  rpc Watch (Seat) returns (stream Reply);
}
message Seat { int32 id = 1; }
message Reply { string text = 1; }
`;

interface Seat {
  readonly id: number;
}

@Injectable()
class Bookings {
  @Locked('seat:<id>', { waitMs: 0 })
  async book(id: number): Promise<{ text: string }> {
    return { text: `booked ${id}` };
  }
}

@Controller()
class Seats {
  constructor(private readonly bookings: Bookings) {}

  @GrpcMethod('Seats', 'Book')
  @Locked('seat:<seat.id>', { waitMs: 0 })
  async book(seat: Seat): Promise<{ text: string }> {
    return { text: `booked ${seat.id}` };
  }

  @GrpcMethod('Seats', 'Indirect')
  indirect(seat: Seat): Promise<{ text: string }> {
    return this.bookings.book(seat.id);
  }

  @GrpcMethod('Seats', 'Watch')
  @Locked('seat:<seat.id>', { waitMs: 0 })
  watch(seat: Seat): Observable<{ text: string }> {
    return of({ text: `watched ${seat.id}` });
  }
}

type Call = (seat: Seat, callback: (error: grpc.ServiceError | null, reply: { text: string }) => void) => void;

/** A busy lock is ABORTED for unary calls, streams and locked services below them. Without Redis, it is UNAVAILABLE. */
async function checkGrpc(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'grpc-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const protoPath = join(folder, 'seats.proto');
  writeFileSync(protoPath, PROTO);
  for (const redis of [redisUrl(), 'redis://127.0.0.1:1']) {
    const isUp = redis === redisUrl();
    @Module({
      imports: [RedisLockModule.forRoot({ redis, unavailableAfterMs: 0 })],
      controllers: [Seats],
      providers: [Bookings],
    })
    class App {}
    const url = `127.0.0.1:${await freePort()}`;
    const options = { package: 'seats', protoPath, url };
    const app = await NestFactory.createMicroservice<MicroserviceOptions>(App, {
      transport: Transport.GRPC,
      options,
      logger: false,
    });
    await app.listen();
    const definition = grpc.loadPackageDefinition(loader.loadSync(protoPath)) as unknown as {
      seats: { Seats: new (url: string, credentials: grpc.ChannelCredentials) => grpc.Client & Record<string, Call> };
    };
    const client = new definition.seats.Seats(url, grpc.credentials.createInsecure());
    const statusOf = (name: string): Promise<number> =>
      name === 'Watch'
        ? new Promise((resolve) => {
            const stream = (client[name] as unknown as (seat: Seat) => grpc.ClientReadableStream<unknown>)({ id: 1 });
            stream.on('data', () => undefined);
            stream.on('error', () => undefined);
            stream.on('status', ({ code }) => resolve(code));
          })
        : new Promise((resolve) => client[name]({ id: 1 }, (error) => resolve(error?.code ?? grpc.status.OK)));
    const held = isUp ? await app.get(LockService).acquire('seat:1') : undefined;
    for (const name of ['Book', 'Indirect', 'Watch']) {
      assert.equal(await statusOf(name), isUp ? grpc.status.ABORTED : grpc.status.UNAVAILABLE, name);
    }
    await held?.release();
    if (isUp) assert.equal(await statusOf('Book'), grpc.status.OK);
    client.close();
    await app.close();
  }
}

/** No job fails because the application stops, whichever module is imported first. Jobs that wait stay in the queue. */
async function checkBullmqShutdown(): Promise<void> {
  const { hostname: host, port } = new URL(redisUrl());
  const connection = { host, port: Number(port) };
  for (const isLocksFirst of [true, false]) {
    const name = `orders-${isLocksFirst}-${Math.trunc(performance.now() * 1000)}`;
    let started: () => void = () => undefined;
    const isStarted = new Promise<void>((resolve) => (started = resolve));

    @Processor(name, { concurrency: 1 })
    class Orders extends WorkerHost {
      @Locked('order:<job.data.id>')
      async process(job: Job): Promise<string | undefined> {
        started();
        // Longer than it takes to stop everything else.
        await sleep(300);
        return job.id;
      }
    }
    const locks = RedisLockModule.forRoot({ redis: redisUrl() });
    const queues: DynamicModule[] = [BullModule.forRoot({ connection }), BullModule.registerQueue({ name })];
    @Module({ imports: isLocksFirst ? [locks, ...queues] : [...queues, locks], providers: [Orders] })
    class App {}
    const app = await NestFactory.createApplicationContext(App, { logger: false });
    const queue = new Queue(name, { connection });
    await queue.addBulk([1, 2, 3, 4, 5].map((id) => ({ name: 'pay', data: { id }, opts: { attempts: 1 } })));
    await isStarted;
    await app.close();
    const failed = await queue.getFailed();
    assert.deepEqual(
      failed.map(({ failedReason }) => failedReason),
      [],
      `locks first: ${isLocksFirst}`,
    );
    assert.ok((await queue.getCompletedCount()) > 0, 'no job was completed');
    await queue.obliterate({ force: true });
    await queue.close();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function main(): Promise<void> {
  await checkGrpc();
  await checkBullmqShutdown();
  process.stdout.write('all neighbours are served\n');
}

main().catch((error: unknown) => {
  process.exitCode = 1;
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
});
