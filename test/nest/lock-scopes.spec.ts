import { Readable } from 'node:stream';
import {
  BadRequestException,
  Controller,
  Get,
  Inject,
  Injectable,
  Param,
  ParseIntPipe,
  Scope,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CurrentLock,
  type Lock,
  Locked,
  LockConfigError,
  LockLostError,
  LockScope,
  LockService,
  runInLockScope,
} from 'nestjs-redis-lock';
import { Observable, Subject } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, keyOf, PLATFORMS, rawRedis, startApp, type TestApp } from './support/app.js';
import { Control, HandlerCommit, SubscribeLate, TimeoutInterceptor } from './support/interceptors.js';
import { RawRequest } from './support/raw-request.js';
import { Room } from './support/room.js';
import { onStoppedServer } from './support/stopped-app.js';

const clock = onStoppedServer();

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { ttlMs: 1_500 })
  async touch(id: number, @CurrentLock() lock?: Lock): Promise<number | undefined> {
    return id > 0 ? lock?.fencingToken : undefined;
  }

  async touchInScope(id: number): Promise<void> {
    await runInLockScope(() => this.touch(id));
  }
}

@Controller()
class GoodsController {
  readonly feed = new Subject<string>();
  readonly subscribed: Deferred<void> = deferred();
  readonly file = new Readable({ read: () => undefined });
  signals: AbortSignal[] = [];

  constructor(
    private readonly goods: GoodsService,
    private readonly room: Room,
  ) {}

  @LockScope()
  @Get('plain/:id')
  @UseInterceptors(SubscribeLate, HandlerCommit)
  async plain(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    await this.goods.touchInScope(id);
    return this.room.stay(id);
  }

  @Get('failing/:id')
  @LockScope()
  async failing(@Param('id', ParseIntPipe) id: number): Promise<void> {
    await this.goods.touch(id);
    throw new BadRequestException('no stock');
  }

  @Get('ignoring/:id')
  @LockScope({ onLost: 'ignore' })
  async ignoring(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    await this.goods.touchInScope(id);
    return this.room.stay(id);
  }

  @Get('above/:id')
  @LockScope()
  @Locked('order:<id>')
  @UseInterceptors(TimeoutInterceptor, HandlerCommit)
  async above(@Param('id', ParseIntPipe) id: number, @CurrentLock() lock: Lock): Promise<number | undefined> {
    return this.stay(id, lock);
  }

  @Get('below/:id')
  @Locked('order:<id>')
  @LockScope()
  @UseInterceptors(TimeoutInterceptor, HandlerCommit)
  async below(@Param('id', ParseIntPipe) id: number, @CurrentLock() lock: Lock): Promise<number | undefined> {
    return this.stay(id, lock);
  }

  @Get('observable/:id')
  @LockScope()
  observable(@Param('id', ParseIntPipe) id: number): Observable<string> {
    return this.watch(id);
  }

  @Get('promised/:id')
  @LockScope()
  async promised(@Param('id', ParseIntPipe) id: number): Promise<Observable<string>> {
    return this.watch(id);
  }

  @Get('both/:id')
  @LockScope()
  @Locked('order:<id>')
  both(@Param('id', ParseIntPipe) id: number): Observable<string> {
    return this.watch(id);
  }

  @Get('file/:id')
  @LockScope()
  async streamed(@Param('id', ParseIntPipe) id: number): Promise<StreamableFile> {
    await this.goods.touch(id);
    return new StreamableFile(this.file);
  }

  private stay(id: number, lock: Lock): Promise<number | undefined> {
    return runInLockScope(async ({ signal }) => {
      this.signals = [lock.signal, signal];
      await this.goods.touch(id);
      return this.room.stay(id);
    });
  }

  private watch(id: number): Observable<string> {
    return new Observable((subscriber) => {
      void this.goods.touch(id).then(() => this.subscribed.resolve());
      return this.feed.subscribe(subscriber);
    });
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('@LockScope on a handler on %s', (platform) => {
  let app: TestApp;
  let controller: GoodsController;
  let control: Control;
  beforeEach(async () => {
    const providers = [GoodsService, Control];
    app = await startApp({ platform, controllers: [GoodsController], providers });
    controller = app.nest.get(GoodsController);
    control = app.nest.get(Control);
    control.key = keyOf(app.prefix, 'goods:1');
  });

  it.each(['plain', 'above', 'below'])('keeps locks until the response is complete (%s)', async (route) => {
    const call = app.call(`/${route}/1`);
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(app.log.count('released')).toBe(0);
    visit.leave();
    expect((await call).text).toBe('1');
    expect(control.commits).toEqual(['handler under the lock']);
    expect([await app.isLocked('goods:1'), await app.isLocked('order:1')]).toEqual([false, false]);
    expect(app.log.count('granted')).toBe(app.log.count('released'));
  });

  it("releases the locks if the handler fails, and sends the handler's exception", async () => {
    const { status, body } = await app.call('/failing/1');
    expect([status, body.message]).toEqual([400, 'no stock']);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it.each(['above', 'below'])('aborts the signals of the lock and of the scope after a timeout (%s)', async (route) => {
    const call = app.call(`/${route}/1`);
    const visit = await app.room.next();
    control.timeout.resolve();
    expect((await call).status).toBe(408);
    const aborted = { reason: { name: 'AbortError' } };
    expect(controller.signals).toMatchObject([aborted, aborted]);
    expect([await app.isLocked('goods:1'), await app.isLocked('order:1')]).toEqual([true, true]);
    visit.leave();
    await app.log.until('released goods:1');
    await app.log.until('released order:1');
  });

  it.each(['observable', 'promised', 'both'])('keeps locks until an Observable ends (%s)', async (route) => {
    const call = app.call(`/${route}/1`);
    await controller.subscribed.promise;
    controller.feed.next('first');
    expect(await app.isLocked('goods:1')).toBe(true);
    controller.feed.next('last');
    controller.feed.complete();
    expect((await call).text).toBe('last');
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it.each(['observable', 'promised', 'both'])('releases locks after a disconnect (%s)', async (route) => {
    const client = new RawRequest(`${app.url}/${route}/1`);
    await controller.subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(true);
    client.hangUp();
    await app.log.until('released goods:1');
    expect(controller.feed.observed).toBe(false);
  });

  it('keeps locks until a file is sent', async () => {
    const call = app.call('/file/1');
    await app.log.until('granted goods:1');
    controller.file.push('first');
    expect(await app.isLocked('goods:1')).toBe(true);
    controller.file.push(null);
    expect((await call).text).toBe('first');
    await app.log.until('released goods:1');
  });

  it.each([
    ['plain', 500],
    ['ignoring', 200],
  ])('follows onLost if a kept lock is lost (%s)', async (route, status) => {
    const call = app.call(`/${route}/1`);
    const visit = await app.room.next();
    await rawRedis().del(keyOf(app.prefix, 'goods:1'));
    await clock().until(app.log.until('lost goods:1'));
    visit.leave();
    expect((await call).status).toBe(status);
  });
});

@Injectable()
class ShopService {
  readonly feed = new Subject<string>();

  constructor(
    protected readonly goods: GoodsService,
    protected readonly locks: LockService,
    protected readonly room: Room,
  ) {}

  /** Buys the second only after the first is bought. */
  @LockScope()
  async buy(first: number, second: number): Promise<unknown> {
    const tokens = [await this.goods.touch(first), await this.goods.touch(second), await this.goods.touch(first)];
    await this.room.stay();
    return tokens[0] === tokens[2];
  }

  @LockScope()
  watch(): Observable<string> {
    return this.feed;
  }

  @LockScope()
  undeclared(): unknown {
    return this.feed;
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequestService extends ShopService {
  constructor(
    goods: GoodsService,
    locks: LockService,
    room: Room,
    @Inject(REQUEST) readonly request: unknown,
  ) {
    super(goods, locks, room);
  }
}

describe('@LockScope on a method of a provider', () => {
  let app: TestApp;
  let shop: ShopService;
  beforeEach(async () => {
    app = await startApp({ providers: [GoodsService, ShopService, PerRequestService] });
    shop = app.nest.get(ShopService);
  });

  it.each([ShopService, PerRequestService])('keeps the locks of other services until it has settled', async (type) => {
    const service = await app.nest.resolve<ShopService>(type);
    const bought = service.buy(1, 2);
    const visit = await app.room.next();
    expect([await app.isLocked('goods:1'), await app.isLocked('goods:2')]).toEqual([true, true]);
    visit.leave();
    expect(await bought).toBe(true);
    expect([await app.isLocked('goods:1'), await app.isLocked('goods:2')]).toEqual([false, false]);
    expect(app.log.count('granted')).toBe(2);
  });

  it('rejects with LockLostError if a kept lock is lost', async () => {
    const bought = shop.buy(1, 2);
    bought.catch(() => undefined);
    const visit = await app.room.next();
    await rawRedis().del(keyOf(app.prefix, 'goods:1'));
    await clock().until(app.log.until('lost goods:1'));
    visit.leave();
    await expect(bought).rejects.toBeInstanceOf(LockLostError);
    expect(await app.isLocked('goods:2')).toBe(false);
  });

  it('refuses an Observable', async () => {
    expect(() => shop.watch()).toThrow(LockConfigError);
    expect(() => shop.watch()).toThrow('ShopService.watch returns an Observable');
    await expect(shop.undeclared()).rejects.toThrow(LockConfigError);
    await expect(shop.undeclared()).rejects.toThrow('ShopService.undeclared returns an Observable');
  });
});
