import { once } from 'node:events';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { io, type Socket } from 'socket.io-client';
import { type AppSetUp, closeApps, keyOf, startApp, type TestApp } from './support/app.js';
import { Control, HandlerCommit } from './support/interceptors.js';
import { Room } from './support/room.js';
import { Copying } from './support/wrappers.js';

interface Order {
  readonly id: number;
}

@WebSocketGateway({ transports: ['websocket'] })
class GoodsGateway {
  readonly tokens: number[] = [];

  constructor(
    private readonly room: Room,
    private readonly locks: LockService,
  ) {}

  @SubscribeMessage('buy')
  @UseInterceptors(HandlerCommit)
  @Locked('goods:<order.id>', { waitMs: 0 })
  async buy(@MessageBody() order: Order, @CurrentLock() lock: Lock): Promise<object> {
    this.tokens.push(lock.fencingToken);
    await this.room.stay();
    return { event: 'bought', data: order.id };
  }

  // Nest passes the socket and the payload, because no parameter has a decorator.
  @SubscribeMessage('undecorated')
  @Locked('goods:<order.id>')
  async undecorated(_socket: unknown, order: Order): Promise<number> {
    return order.id;
  }

  @LockScope()
  @SubscribeMessage('scoped')
  @UseInterceptors(HandlerCommit)
  async scoped(@MessageBody() order: Order): Promise<object> {
    await this.locks.using(`goods:${order.id}`, () => undefined);
    return { event: 'bought', data: order.id };
  }

  @SubscribeMessage('wrapped')
  @UseInterceptors(HandlerCommit)
  @Copying()
  @Locked('goods:<order.id>')
  async wrapped(@MessageBody() order: Order): Promise<object> {
    return { event: 'bought', data: order.id };
  }

  @Locked('goods:<order.id>')
  @SubscribeMessage('odd')
  async odd(@MessageBody() order: Order): Promise<void> {
    throw new WsException(`no goods ${order.id}`);
  }
}

@Catch()
class CatchAll implements ExceptionFilter {
  catch(error: { readonly code?: string }, host: ArgumentsHost): void {
    const client = host.switchToWs().getClient<{ emit(event: string, payload: object): void }>();
    client.emit('exception', { caught: error.code });
  }
}

@UseFilters(CatchAll)
@WebSocketGateway({ transports: ['websocket'] })
class FilteredGateway extends GoodsGateway {}

describe('a message of a gateway', () => {
  let app: TestApp;
  let control: Control;
  let socket: Socket;

  const start = async (gateway: Type = GoodsGateway, setUp: AppSetUp = {}): Promise<void> => {
    app = await startApp({ ...setUp, providers: [gateway, Control, ...(setUp.providers ?? [])] });
    control = app.nest.get(Control);
    control.key = keyOf(app.prefix, 'goods:1');
    socket = io(app.url, { transports: ['websocket'], reconnection: false });
    await once(socket as never, 'connect');
  };
  afterEach(async () => {
    socket.disconnect();
    await closeApps();
  });

  const next = async (event: string): Promise<unknown> => ((await once(socket as never, event)) as unknown[])[0];
  const buyBusy = (): Promise<unknown> =>
    app.locks.using('goods:1', () => {
      socket.emit('buy', { id: 1 });
      return next('exception');
    });

  it('is handled under the lock, interceptors included', async () => {
    await start();
    const bought = next('bought');
    socket.emit('buy', { id: 1 });
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    expect(await bought).toBe(1);
    expect(control.commits).toEqual(['handler under the lock']);
    expect(app.nest.get(GoodsGateway).tokens).toEqual([expect.any(Number)]);
    await app.log.until('released goods:1');
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it.each(['scoped', 'wrapped'])('keeps its locks until its interceptors are through (%s)', async (message) => {
    await start();
    const bought = next('bought');
    socket.emit(message, { id: 1 });
    expect(await bought).toBe(1);
    expect(control.commits).toEqual(['handler under the lock']);
    await app.log.until('released goods:1');
  });

  it("of a busy lock gets 'exception' with the code", async () => {
    await start(GoodsGateway, { providers: [{ provide: APP_FILTER, useClass: CatchAll }] });
    // Nest has no global filters for gateways, so this is the response of ours.
    const message = 'goods:1 is locked by others.';
    expect(await buyBusy()).toEqual({ status: 'error', code: 'LOCK_TIMEOUT', message, retryAfterMs: 1_000 });
    expect(app.room.visits).toBe(0);
  });

  it('of a busy lock is handled by a filter on the class first', async () => {
    await start(FilteredGateway);
    expect(await buyBusy()).toEqual({ caught: 'LOCK_TIMEOUT' });
  });

  it.each(['buy', 'undecorated'])('that cannot form a key names the placeholder (%s)', async (message) => {
    await start();
    const exception = next('exception');
    socket.emit(message, { id: [1, 2] });
    const text = "The value of 'order.id' is missing or invalid.";
    expect(await exception).toEqual({ status: 'error', code: 'LOCK_KEY', message: text });
    expect(app.logged).toEqual([]);
  });

  it("gets the handler's own exception unchanged", async () => {
    await start();
    const exception = next('exception');
    socket.emit('odd', { id: 1 });
    expect(await exception).toMatchObject({ status: 'error', message: 'no goods 1' });
    await app.log.until('released goods:1');
  });
});
