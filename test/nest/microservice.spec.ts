import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import {
  type CallHandler,
  CanActivate,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
  RpcException,
} from '@nestjs/microservices';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { concatMap, firstValueFrom, lastValueFrom, Observable, Subject, toArray } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class Locks {
  isLocked: (resource: string) => Promise<boolean> = () => Promise.resolve(false);
  readonly commits: boolean[] = [];
}

@Injectable()
class Commit implements NestInterceptor {
  constructor(private readonly locks: Locks) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      concatMap(async (value: unknown) => {
        this.locks.commits.push(await this.locks.isLocked('goods:1'));
        return value;
      }),
    );
  }
}

@Injectable()
class Doorman implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

interface Order {
  readonly id: number;
}

@Controller()
class OrdersController {
  readonly feed = new Subject<string>();
  readonly subscribed: Deferred<void> = deferred();

  constructor(
    private readonly room: Room,
    private readonly locks: LockService,
  ) {}

  @MessagePattern('scoped')
  @UseInterceptors(Commit)
  @LockScope()
  scoped(@Payload() order: Order): Promise<number> {
    return this.locks.using(`goods:${order.id}`, () => order.id);
  }

  @MessagePattern('buy')
  @UseInterceptors(Commit)
  @Locked('goods:<order.id>', { waitMs: 0 })
  buy(@Payload() order: Order): Promise<number | undefined> {
    return this.room.stay(order.id);
  }

  @Locked('goods:<order.id>', { waitMs: 0 })
  @MessagePattern('watch')
  watch(@Payload() order: Order): Observable<string> {
    return new Observable((subscriber) => {
      this.subscribed.resolve();
      subscriber.next(`goods ${order.id}`);
      return this.feed.subscribe(subscriber);
    });
  }

  // Nest passes the payload and the context, because no parameter has a decorator.
  @MessagePattern('undecorated')
  @Locked('goods:<order.id>')
  async undecorated(order: Order): Promise<number> {
    return order.id;
  }

  @EventPattern('sold')
  @Locked('goods:<order.id>')
  sold(@Payload() order: Order): Promise<number | undefined> {
    return this.room.stay(order.id);
  }

  @MessagePattern('guarded')
  @UseGuards(Doorman)
  @Locked('goods:<order.id>')
  async guarded(@Payload() order: Order): Promise<number> {
    return order.id;
  }

  @MessagePattern('broken')
  @Locked('goods:<order.id>')
  async broken(@Payload() order: Order): Promise<number> {
    throw new RpcException(`no goods ${order.id}`);
  }
}

async function connectTo(app: TestApp): Promise<ClientProxy> {
  const server = app.nest.getMicroservices()[0]?.unwrap<Server>();
  if (!server.listening) await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return ClientProxyFactory.create({ transport: Transport.TCP, options: { port, host: '127.0.0.1' } });
}

const overTcp = { transport: Transport.TCP, options: { port: 0, host: '127.0.0.1' } } as const;

/** Without `inheritAppConfig`, the application's global interceptors and filters do not run for messages. */
describe('a message handler over TCP in a hybrid application', () => {
  let app: TestApp;
  let client: ClientProxy;

  beforeEach(async () => {
    app = await startApp({
      controllers: [OrdersController],
      providers: [Commit, Doorman, Locks],
      prepare: async (nest) => {
        nest.connectMicroservice(overTcp);
        await nest.startAllMicroservices();
      },
    });
    app.nest.get(Locks).isLocked = (resource) => app.isLocked(resource);
    client = await connectTo(app);
  });
  afterEach(async () => {
    await client.close();
    await closeApps();
  });

  const send = (pattern: string, id = 1): Promise<unknown> => lastValueFrom(client.send(pattern, { id }));

  it('runs under one lock with its interceptors', async () => {
    const first = send('buy');
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    await expect(send('buy')).rejects.toMatchObject({ status: 'error', code: 'LOCK_TIMEOUT' });
    visit.leave();
    expect(await first).toBe(1);
    expect(app.nest.get(Locks).commits).toEqual([true]);
    expect(app.log.count('granted goods:1')).toBe(1);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('keeps the locks of its lock scope until its interceptors are through', async () => {
    expect(await send('scoped')).toBe(1);
    expect(app.nest.get(Locks).commits).toEqual([true]);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it('replies with retryAfterMs if the lock is busy', async () => {
    const holder = await app.locks.acquire('goods:1');
    const error = await send('buy').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ message: 'goods:1 is locked by others.', retryAfterMs: 1_000 });
    await holder.release();
  });

  it.each(['buy', 'undecorated'])('names the property of a payload that cannot form a key: %s', async (pattern) => {
    const error: unknown = await lastValueFrom(client.send(pattern, { id: ['1', '2'] })).catch((thrown) => thrown);
    const message = "The payload's property 'id' is an array; expected one value.";
    expect(error).toMatchObject({ code: 'LOCK_KEY', message });
  });

  it('holds the lock until its Observable completes', async () => {
    const { feed, subscribed } = app.nest.get(OrdersController);
    const response = firstValueFrom(client.send('watch', { id: 1 }).pipe(toArray()));
    await subscribed.promise;
    await expect(send('buy')).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' });
    feed.next('last');
    feed.complete();
    expect(await response).toEqual(['goods 1', 'last']);
    await app.log.until('released goods:1');
  });

  it('handles events under the lock, one at a time', async () => {
    client.emit('sold', { id: 1 });
    client.emit('sold', { id: 1 });
    const first = await app.room.next();
    await app.log.until('requested goods:1', 2);
    expect(app.room.inside).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    await app.log.until('released goods:1', 2);
    expect(app.room.most).toBe(1);
  });

  it('acquires no lock if a guard refuses', async () => {
    await expect(send('guarded')).rejects.toBeDefined();
    expect(app.log.lines).toEqual([]);
  });

  it('sends its own exception unchanged', async () => {
    await expect(send('broken')).rejects.toEqual({ status: 'error', message: 'no goods 1' });
    await app.log.until('released goods:1');
  });
});

describe("a message handler that inherits the application's configuration", () => {
  afterEach(closeApps);

  it("holds one lock per call, which covers the user's global interceptors", async () => {
    const app = await startApp({
      controllers: [OrdersController],
      providers: [Commit, Doorman, Locks],
      prepare: async (nest) => {
        nest.useGlobalInterceptors(nest.get(Commit));
        nest.connectMicroservice(overTcp, { inheritAppConfig: true });
        await nest.startAllMicroservices();
      },
    });
    app.nest.get(Locks).isLocked = (resource) => app.isLocked(resource);
    const client = await connectTo(app);
    const bought = lastValueFrom(client.send('buy', { id: 1 }));
    (await app.room.next()).leave();
    expect(await bought).toBe(1);
    expect(app.nest.get(Locks).commits).toEqual([true, true]);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
    await client.close();
  });
});
