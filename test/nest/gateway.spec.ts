import { once } from 'node:events';
import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockScope, LockService } from 'nestjs-redis-lock';
import { concatMap, type Observable } from 'rxjs';
import { io, type Socket } from 'socket.io-client';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class Commit implements NestInterceptor {
  readonly commits: boolean[] = [];
  isLocked: () => Promise<boolean> = () => Promise.resolve(false);

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      concatMap(async (value: unknown) => {
        this.commits.push(await this.isLocked());
        return value;
      }),
    );
  }
}

@WebSocketGateway({ transports: ['websocket'] })
class GoodsGateway {
  readonly tokens: number[] = [];

  constructor(
    private readonly room: Room,
    private readonly locks: LockService,
  ) {}

  @LockScope()
  @SubscribeMessage('scoped')
  @UseInterceptors(Commit)
  async scoped(@MessageBody() body: { id: number }): Promise<object> {
    await this.locks.using(`goods:${body.id}`, () => undefined);
    return { event: 'bought', data: body.id };
  }

  @SubscribeMessage('buy')
  @UseInterceptors(Commit)
  @Locked('goods:<body.id>', { waitMs: 0 })
  async buy(@MessageBody() body: { id: number }, @CurrentLock() lock: Lock): Promise<object> {
    this.tokens.push(lock.fencingToken);
    await this.room.stay();
    return { event: 'bought', data: body.id };
  }

  @Locked('goods:<body.id>')
  @SubscribeMessage('odd')
  async odd(@MessageBody() body: { id: number }): Promise<void> {
    throw new WsException(`no goods ${body.id}`);
  }
}

describe('a gateway', () => {
  let app: TestApp;
  let socket: Socket;

  beforeEach(async () => {
    app = await startApp({ providers: [GoodsGateway, Commit] });
    app.nest.get(Commit).isLocked = () => app.isLocked('goods:1');
    socket = io(app.url, { transports: ['websocket'], reconnection: false });
    await once(socket as never, 'connect');
  });
  afterEach(async () => {
    socket.disconnect();
    await closeApps();
  });

  const next = async (event: string): Promise<unknown> => ((await once(socket as never, event)) as unknown[])[0];

  it('handles a message under the lock, interceptors included', async () => {
    const bought = next('bought');
    socket.emit('buy', { id: 1 });
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    expect(await bought).toBe(1);
    expect(app.nest.get(Commit).commits).toEqual([true]);
    expect(app.nest.get(GoodsGateway).tokens).toEqual([expect.any(Number)]);
    await app.log.until('released goods:1');
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it('keeps the locks of its lock scope until its interceptors are through', async () => {
    const bought = next('bought');
    socket.emit('scoped', { id: 1 });
    expect(await bought).toBe(1);
    expect(app.nest.get(Commit).commits).toEqual([true]);
    await app.log.until('released goods:1');
  });

  it("sends 'exception' with the code if the lock is busy", async () => {
    const holder = await app.locks.acquire('goods:1');
    const exception = next('exception');
    socket.emit('buy', { id: 1 });
    expect(await exception).toMatchObject({
      status: 'error',
      code: 'LOCK_TIMEOUT',
      message: expect.stringContaining('goods:1 is locked by others'),
      retryAfterMs: expect.any(Number),
    });
    expect(app.room.visits).toBe(0);
    await holder.release();
  });

  it('names the property of a message that cannot form a key', async () => {
    const exception = next('exception');
    socket.emit('buy', {});
    const message = "The payload's property 'id' is missing.";
    expect(await exception).toEqual({ status: 'error', code: 'LOCK_KEY', message });
    expect(app.logged).toEqual([]);
  });

  it("sends the handler's own exception unchanged", async () => {
    const exception = next('exception');
    socket.emit('odd', { id: 1 });
    expect(await exception).toMatchObject({ status: 'error', message: 'no goods 1' });
    await app.log.until('released goods:1');
  });
});
