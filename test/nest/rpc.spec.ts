import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Module,
  type ModuleMetadata,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  RpcException,
  Transport,
} from '@nestjs/microservices';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { firstValueFrom, lastValueFrom, Observable, Subject, throwError, toArray } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, keyOf, startApp } from './support/app.js';
import { AppCommit, Control, HandlerCommit } from './support/interceptors.js';
import { Room } from './support/room.js';

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

  @MessagePattern('buy')
  @UseInterceptors(HandlerCommit)
  @Locked('goods:<order.id>', { waitMs: 0 })
  buy(@Payload() order: Order): Promise<number | undefined> {
    return this.room.stay(order.id);
  }

  // Nest passes the payload and the context, because no parameter has a decorator.
  @MessagePattern('undecorated')
  @Locked('goods:<order.id>')
  async undecorated(order: Order): Promise<number> {
    return order.id;
  }

  @MessagePattern('scoped')
  @UseInterceptors(HandlerCommit)
  @LockScope()
  scoped(@Payload() order: Order): Promise<number> {
    return this.locks.using(`goods:${order.id}`, () => order.id);
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

  @EventPattern('sold')
  @Locked('goods:<order.id>')
  sold(@Payload() order: Order): Promise<number | undefined> {
    return this.room.stay(order.id);
  }

  @MessagePattern('broken')
  @Locked('goods:<order.id>')
  async broken(@Payload() order: Order): Promise<number> {
    throw new RpcException(`no goods ${order.id}`);
  }
}

@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: { readonly code?: string }, _host: ArgumentsHost): Observable<never> {
    return throwError(() => ({ caught: error.code }));
  }
}

@UseFilters(CatchAll)
@Controller()
class FilteredController extends OrdersController {}

const overTcp = { transport: Transport.TCP, options: { port: 0, host: '127.0.0.1' } } as const;

let client: ClientProxy;
let control: Control;

afterEach(async () => {
  await client.close();
  await closeApps();
});

/** Starts a hybrid application and its client. */
async function start(
  inheritAppConfig: boolean,
  filters: ExceptionFilter[] = [],
  controller: Type = OrdersController,
  { imports, providers = [] }: ModuleMetadata = {},
) {
  const app = await startApp({
    imports,
    controllers: [controller],
    providers: [Control, ...providers],
    prepare: async (nest) => {
      nest.useGlobalInterceptors(new AppCommit(nest.get(Control))).useGlobalFilters(...filters);
      nest.connectMicroservice(overTcp, { inheritAppConfig });
      await nest.startAllMicroservices();
    },
  });
  control = app.nest.get(Control);
  control.key = keyOf(app.prefix, 'goods:1');
  const server = app.nest.getMicroservices()[0].unwrap<Server>();
  if (!server.listening) await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  client = ClientProxyFactory.create({ transport: Transport.TCP, options: { port, host: '127.0.0.1' } });
  return app;
}

const send = (pattern: string, id: unknown = 1): Promise<unknown> => lastValueFrom(client.send(pattern, { id }));
const errorOf = (pattern: string, id?: unknown): Promise<unknown> => send(pattern, id).catch((error: unknown) => error);

const BUSY = { status: 'error', code: 'LOCK_TIMEOUT', message: 'goods:1 is locked by others.', retryAfterMs: 1_000 };

describe('a message handler', () => {
  it.each([
    [false, ['handler under the lock']],
    [true, ['handler under the lock', 'app under the lock']],
  ])('runs under one lock with its interceptors (inheritAppConfig: %p)', async (inherit, commits) => {
    const app = await start(inherit);
    const first = send('buy');
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(await errorOf('buy')).toEqual(BUSY);
    visit.leave();
    expect(await first).toBe(1);
    expect(control.commits).toEqual(commits);
    expect(app.log.count('granted goods:1')).toBe(1);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('keeps the locks of its lock scope until its interceptors are through', async () => {
    const app = await start(false);
    expect(await send('scoped')).toBe(1);
    expect(control.commits).toEqual(['handler under the lock']);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it('holds the lock until its Observable completes', async () => {
    const app = await start(false);
    const { feed, subscribed } = app.nest.get(OrdersController);
    const response = firstValueFrom(client.send('watch', { id: 1 }).pipe(toArray()));
    await subscribed.promise;
    expect(await errorOf('buy')).toEqual(BUSY);
    feed.next('last');
    feed.complete();
    expect(await response).toEqual(['goods 1', 'last']);
    await app.log.until('released goods:1');
  });

  it('handles events under the lock, one at a time', async () => {
    const app = await start(false);
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

  it('sends its own exception unchanged', async () => {
    const app = await start(false);
    expect(await errorOf('broken')).toEqual({ status: 'error', message: 'no goods 1' });
    await app.log.until('released goods:1');
  });

  it.each(['buy', 'undecorated'])('names the placeholder of a payload that cannot form a key: %s', async (pattern) => {
    const app = await start(false);
    const message = "The value of 'order.id' is missing or invalid.";
    expect(await errorOf(pattern, [1, 2])).toEqual({ status: 'error', code: 'LOCK_KEY', message });
    expect(app.logged).toEqual([expect.stringMatching(/^warn OrdersController\./)]);
  });

  const global = [new CatchAll()];

  it.each<[string, boolean, ExceptionFilter[], Type, object]>([
    ['by a global filter of the user', true, global, OrdersController, { caught: 'LOCK_TIMEOUT' }],
    ['by a filter on the class', true, [], FilteredController, { caught: 'LOCK_TIMEOUT' }],
    ['by a filter on the class', false, [], FilteredController, { caught: 'LOCK_TIMEOUT' }],
    ['by ours', true, [], OrdersController, BUSY],
    ['by ours', false, global, OrdersController, BUSY],
  ])('that is busy is handled %s (inheritAppConfig: %p)', async (_who, inherit, filters, controller, expected) => {
    const app = await start(inherit, filters, controller);
    await app.locks.using('goods:1', async () => expect(await errorOf('buy')).toEqual(expected));
  });

  it('that is busy is handled by an APP_FILTER of a module that is imported later, and not by one of AppModule', async () => {
    const providers = [{ provide: APP_FILTER, useClass: CatchAll }];
    @Module({ providers })
    class Later {}
    const later = await start(true, [], OrdersController, { imports: [Later] });
    await later.locks.using('goods:1', async () => expect(await errorOf('buy')).toEqual({ caught: 'LOCK_TIMEOUT' }));
    await client.close();
    const earlier = await start(true, [], OrdersController, { providers });
    await earlier.locks.using('goods:1', async () => expect(await errorOf('buy')).toEqual(BUSY));
  });
});
