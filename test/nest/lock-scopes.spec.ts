import { Readable } from 'node:stream';
import {
  BadRequestException,
  Controller,
  Get,
  Injectable,
  Param,
  ParseIntPipe,
  StreamableFile,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockConfigError, LockScope, runInLockScope } from 'nestjs-redis-lock';
import { Observable, Subject } from 'rxjs';
import { type Deferred, deferred } from '../support/async.js';
import { closeApps, keyOf, PLATFORMS, rawRedis, startApp, type TestApp } from './support/app.js';
import { type GoodsHandler, goodsController, type Work } from './support/goods-controller.js';
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
}

@Controller('watched')
class StreamsController {
  readonly feed = new Subject<string>();
  readonly subscribed: Deferred<void> = deferred();

  constructor(private readonly goods: GoodsService) {}

  @Get('observable/:id')
  @LockScope()
  observable(@Param('id', ParseIntPipe) id: number): Observable<string> {
    return this.watch(id);
  }

  @Get('both/:id')
  @LockScope()
  @Locked('order:<id>')
  both(@Param('id', ParseIntPipe) id: number): Observable<string> {
    return this.watch(id);
  }

  private watch(id: number): Observable<string> {
    return new Observable((subscriber) => {
      void this.goods.touch(id).then(() => this.subscribed.resolve());
      return this.feed.subscribe(subscriber);
    });
  }
}

/** Uses a lock in a scope of its own, and stays. Keeps the signal of that scope. */
const stay: Work = ({ locks, room }, id) =>
  runInLockScope(async (scope) => {
    scopeSignal = scope.signal;
    await locks.using(`goods:${id}`, { ttlMs: 1_500 }, () => undefined);
    return room.stay(id);
  });
let scopeSignal: AbortSignal;

const INTERCEPTED = UseInterceptors(SubscribeLate, TimeoutInterceptor, HandlerCommit);
const ORDER = Locked('order:<id>');
const HANDLERS: [string, unknown[]][] = [
  ['alone', [LockScope(), INTERCEPTED]],
  ['above @Locked', [LockScope(), ORDER, INTERCEPTED]],
  ['below @Locked', [ORDER, LockScope(), INTERCEPTED]],
];

afterEach(closeApps);

describe.each(PLATFORMS)('@LockScope on a handler on %s', (platform) => {
  let app: TestApp;
  let control: Control;
  const start = async (controller: Type): Promise<void> => {
    app = await startApp({ platform, controllers: [controller], providers: [GoodsService, Control] });
    control = app.nest.get(Control);
    control.key = keyOf(app.prefix, 'goods:1');
  };

  it.each(HANDLERS)('keeps locks until the response is complete (%s)', async (_where, decorators) => {
    await start(goodsController(decorators, stay));
    const call = app.call('/goods/1');
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
    await start(goodsController([LockScope()], stay));
    const call = app.call('/goods/1');
    (await app.room.next()).fail(new BadRequestException('no stock'));
    expect(await call).toMatchObject({ status: 400, body: { message: 'no stock' } });
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it.each(HANDLERS.slice(1))(
    'aborts the signals of the lock and of the scope after a timeout (%s)',
    async (_where, of) => {
      const controller = goodsController(of, stay);
      await start(controller);
      const call = app.call('/goods/1');
      const visit = await app.room.next();
      control.timeout.resolve();
      expect((await call).status).toBe(408);
      const aborted = { reason: { name: 'AbortError' } };
      expect([app.nest.get<GoodsHandler>(controller).lock?.signal, scopeSignal]).toMatchObject([aborted, aborted]);
      expect([await app.isLocked('goods:1'), await app.isLocked('order:1')]).toEqual([true, true]);
      visit.leave();
      await app.log.until('released goods:1');
      await app.log.until('released order:1');
    },
  );

  it.each(['observable', 'both'])('keeps locks until an Observable ends (%s)', async (route) => {
    await start(StreamsController);
    const { feed, subscribed } = app.nest.get(StreamsController);
    const call = app.call(`/watched/${route}/1`);
    await subscribed.promise;
    feed.next('first');
    expect(await app.isLocked('goods:1')).toBe(true);
    feed.next('last');
    feed.complete();
    expect((await call).text).toBe('last');
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it.each(['observable', 'both'])('releases locks after a disconnect (%s)', async (route) => {
    await start(StreamsController);
    const { feed, subscribed } = app.nest.get(StreamsController);
    const client = new RawRequest(`${app.url}/watched/${route}/1`);
    await subscribed.promise;
    expect(await app.isLocked('goods:1')).toBe(true);
    client.hangUp();
    await app.log.until('released goods:1');
    expect(feed.observed).toBe(false);
  });

  it('keeps locks until a file is sent', async () => {
    const file = new Readable({ read: () => undefined });
    const sends: Work = ({ locks }) => locks.using('goods:1', () => new StreamableFile(file));
    await start(goodsController([LockScope()], sends));
    const call = app.call('/goods/1');
    await app.log.until('granted goods:1');
    file.push('first');
    expect(await app.isLocked('goods:1')).toBe(true);
    file.push(null);
    expect((await call).text).toBe('first');
    await app.log.until('released goods:1');
  });

  it.each([
    [undefined, 500],
    ['ignore', 200],
  ] as const)('follows onLost if a kept lock is lost (%s)', async (onLost, status) => {
    const useAndStay: Work = async ({ locks, room }) => {
      await runInLockScope(() => locks.using('goods:1', { ttlMs: 1_500 }, () => undefined));
      return room.stay();
    };
    await start(goodsController([LockScope({ onLost })], useAndStay));
    const call = app.call('/goods/1');
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
    private readonly goods: GoodsService,
    private readonly room: Room,
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

describe('@LockScope on a method of a provider', () => {
  let app: TestApp;
  let shop: ShopService;
  beforeEach(async () => {
    app = await startApp({ providers: [GoodsService, ShopService] });
    shop = app.nest.get(ShopService);
  });

  it('keeps the locks of other services until it has settled', async () => {
    const bought = shop.buy(1, 2);
    const visit = await app.room.next();
    expect([await app.isLocked('goods:1'), await app.isLocked('goods:2')]).toEqual([true, true]);
    visit.leave();
    expect(await bought).toBe(true);
    expect([await app.isLocked('goods:1'), await app.isLocked('goods:2')]).toEqual([false, false]);
    expect(app.log.count('granted')).toBe(2);
  });

  it('refuses an Observable', async () => {
    expect(() => shop.watch()).toThrow(LockConfigError);
    expect(() => shop.watch()).toThrow('ShopService.watch returns an Observable');
    await expect(shop.undeclared()).rejects.toThrow(LockConfigError);
    await expect(shop.undeclared()).rejects.toThrow('ShopService.undeclared returns an Observable');
  });
});
