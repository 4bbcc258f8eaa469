import {
  BadRequestException,
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Header,
  HttpCode,
  Injectable,
  Param,
  ParseIntPipe,
  Post,
  type Type,
  UseGuards,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockService, LockTimeoutError, MultiLock, resource } from 'nestjs-redis-lock';
import { of } from 'rxjs';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppResponse, closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { type GoodsHandler, goodsController, type Work } from './support/goods-controller.js';
import { RawRequest } from './support/raw-request.js';
import { Room } from './support/room.js';

@Injectable()
class Doorman implements CanActivate {
  canActivate(): boolean {
    throw new ForbiddenException();
  }
}

/** Calls the handler's method itself. */
@Injectable()
class CallingGuard implements CanActivate {
  constructor(private readonly modules: ModuleRef) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const controller = this.modules.get<{ buy(id: string): Promise<string> }>(context.getClass(), { strict: false });
    return (await controller.buy('1')) === '1';
  }
}

interface Cart {
  readonly ids: readonly unknown[];
}

const LOCKED = Locked('goods:<id>');
const leave: Work = (_handler, id) => id;

@Controller()
class GoodsController {
  constructor(
    private readonly room: Room,
    private readonly locks: LockService,
  ) {}

  @Post('buy/:id')
  @Locked('goods:<id>')
  buy(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Post('grab/:id')
  grab(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }

  @Post('transfer/:from/:to')
  @Locked(['account:<from>', 'account:<to>'])
  async transfer(
    @Param('from', ParseIntPipe) from: number,
    @Param('to', ParseIntPipe) to: number,
    @CurrentLock() locks: MultiLock,
  ): Promise<object> {
    await this.room.stay(`${from} to ${to}`);
    locks.assertHeld();
    const { fencingToken } = locks.of(`account:${to}`);
    const inner = await this.locks.using(`account:${from}`, { waitMs: 0 }, (lock) => lock.fencingToken);
    return { isMulti: locks instanceof MultiLock, resources: locks.resources, tokens: [fencingToken, inner] };
  }

  @Post('transfer-now/:from/:to')
  @Locked(['account:<from>', 'account:<to>'], { waitMs: 0 })
  transferNow(@Param('from') from: string, @Param('to') to: string): Promise<string | undefined> {
    return this.room.stay(`${from} to ${to}`);
  }

  @Post('cart')
  @Locked('goods:<...cart.ids>', { waitMs: 0 })
  cart(@Body() cart: Cart, @CurrentLock() locks: MultiLock): Promise<string | undefined> {
    return this.room.stay(locks.resources.slice(0, cart.ids.length).join());
  }

  @Post('cart-function')
  @Locked((cart: Cart) => cart.ids.map((id) => resource`goods:${Number(id)}`), { waitMs: 0 })
  cartFunction(@Body() cart: Cart, @CurrentLock() locks: MultiLock): Promise<string | undefined> {
    return this.room.stay(locks.resources.join() || String(cart.ids.length));
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('a handler on %s', (platform) => {
  let app: TestApp;
  const start = async (controller: Type = GoodsController): Promise<void> => {
    app = await startApp({ platform, controllers: [controller] });
  };

  const post = (path: string, body?: object): Promise<AppResponse> =>
    app.call(path, {
      method: 'POST',
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  const statusesOf = async (calls: readonly Promise<AppResponse>[]): Promise<number[]> =>
    (await Promise.all(calls)).map(({ status }) => status);
  const areLocked = (resources: readonly string[]) => Promise.all(resources.map((one) => app.isLocked(one)));

  it('runs for one caller at a time', async () => {
    await start();
    const first = post('/buy/300');
    const visit = await app.room.next();
    const second = post('/buy/300');
    await app.log.until('requested goods:300', 2);
    expect(await app.isLocked('goods:300')).toBe(true);
    visit.leave();
    (await app.room.next()).leave();
    expect(await statusesOf([first, second])).toEqual([201, 201]);
    expect(app.room).toMatchObject({ most: 1, visits: 2 });
    expect(await app.isLocked('goods:300')).toBe(false);
  });

  it('builds the key from arguments after pipes: /grab/0300 locks goods:300', async () => {
    await start();
    const first = post('/grab/0300');
    const visit = await app.room.next();
    expect(await app.isLocked('goods:300')).toBe(true);
    expect((await post('/grab/300')).status).toBe(423);
    visit.leave();
    expect((await first).text).toBe('300');
    expect(app.room.visits).toBe(1);
  });

  it('acquires no lock if a pipe or a guard refuses', async () => {
    await start();
    expect((await post('/buy/three')).status).toBe(400);
    expect(app.log.lines).toEqual([]);
    await start(goodsController([UseGuards(Doorman), LOCKED]));
    expect((await app.call('/goods/300')).status).toBe(403);
    expect(app.log.lines).toEqual([]);
  });

  it('and a guard that calls its method take a lock each', async () => {
    await start(goodsController([UseGuards(CallingGuard), LOCKED], leave));
    expect((await app.call('/goods/1')).text).toBe('1');
    const own = ['requested goods:1', 'granted goods:1', 'released goods:1'];
    expect(app.log.lines).toEqual([...own, ...own]);
  });

  it("sends the method's own exceptions unchanged and releases the lock", async () => {
    await start(goodsController([LOCKED]));
    const call = app.call('/goods/7');
    (await app.room.next()).fail(new BadRequestException({ reason: '7' }));
    expect(await call).toMatchObject({ status: 400, body: { reason: '7' } });
    expect(app.log.count('granted goods:7')).toBe(1);
    expect(await app.isLocked('goods:7')).toBe(false);
  });

  it('that calls itself releases the lock of the inner call at the end of that call', async () => {
    const controller = goodsController([LOCKED], async ({ room }, id) => {
      if (id === '2') return id;
      await app.nest.get<{ buy(other: string): Promise<void> }>(controller).buy('2');
      return room.stay(id);
    });
    await start(controller);
    const call = app.call('/goods/1');
    const visit = await app.room.next();
    expect(await areLocked(['goods:1', 'goods:2'])).toEqual([true, false]);
    visit.leave();
    expect((await call).text).toBe('1');
  });

  const below = [HttpCode(202), Header('x-below', 'yes')];
  it.each([
    ['above', [...below, LOCKED]],
    ['below', [LOCKED, ...below]],
  ])('keeps route, status and headers of decorators %s @Locked', async (_place, decorators) => {
    await start(goodsController(decorators, leave));
    const { status, headers, text } = await app.call('/goods/5');
    expect([status, headers.get('x-below'), text]).toEqual([202, 'yes', '5']);
    expect(app.log.lines).toEqual(['requested goods:5', 'granted goods:5', 'released goods:5']);
  });

  it('keeps the lock after a client disconnect until the method has ended', async () => {
    await start();
    const client = new RawRequest(`${app.url}/grab/300`, 'POST');
    const visit = await app.room.next();
    client.hangUp();
    expect((await post('/grab/300')).status).toBe(423);
    visit.leave();
    await app.log.until('released goods:300');
    const again = post('/grab/300');
    (await app.room.next()).leave();
    expect((await again).status).toBe(201);
    expect(app.room.most).toBe(1);
  });

  it('keeps the lock until the method has ended, although that calls lock.release()', async () => {
    await start(
      goodsController([LOCKED], async ({ lock, room }) => {
        await lock?.release();
        await room.stay();
      }),
    );
    const call = app.call('/goods/300');
    const visit = await app.room.next();
    const isLocked = await app.isLocked('goods:300');
    visit.leave();
    expect([(await call).status, isLocked]).toEqual([200, true]);
    expect(await app.isLocked('goods:300')).toBe(false);
  });

  it('goes on waiting for the lock after a client disconnect, and calls the method', async () => {
    await start();
    const holder = await app.locks.acquire('goods:300');
    const client = new RawRequest(`${app.url}/buy/300`, 'POST');
    await app.log.until('requested goods:300', 2);
    client.hangUp();
    expect((await post('/grab/300')).status).toBe(423);
    await holder.release();
    (await app.room.next()).leave();
    await app.log.until('released goods:300', 2);
  });

  it('encodes the values of its key, so that they cannot reach another key', async () => {
    await start(goodsController([LOCKED], leave));
    expect((await app.call('/goods/1%7Dx%7B%3A2')).status).toBe(200);
    expect(app.log.lines).toContain('granted goods:1%7Dx%7B%3A2');
  });

  it('gets its lock by @CurrentLock', async () => {
    const locks: unknown[] = [];
    await start(
      goodsController([LOCKED], ({ lock }) => {
        lock?.assertHeld();
        locks.push(lock);
      }),
    );
    await app.call('/goods/300');
    await app.call('/goods/300');
    const [first, second] = locks as Lock[];
    expect(first).toBeInstanceOf(Lock);
    expect([first.resource, first.key]).toEqual(['goods:300', `{${app.prefix}goods}:300`]);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('that is busy is replaced by onBusy, called on the instance with the arguments', async () => {
    async function onBusy(this: GoodsHandler, error: LockTimeoutError, id: string): Promise<string> {
      return `come again for ${id}: ${error.code} after ${this.calls} calls`;
    }
    for (const [given, instead] of [
      ['skip', ''],
      [onBusy, 'come again for 1: LOCK_TIMEOUT after 0 calls'],
    ] as const) {
      await start(goodsController([Locked('goods:<id>', { waitMs: 0, onBusy: given })], leave));
      await app.locks.using('goods:1', async () => {
        expect(await app.call('/goods/1')).toMatchObject({ status: 200, text: instead });
      });
      expect((await app.call('/goods/1')).text).toBe('1');
    }
  });

  it('that throws a LockTimeoutError of its own is not replaced by onBusy', async () => {
    await start(goodsController([Locked('goods:<id>', { onBusy: 'skip' })]));
    const call = app.call('/goods/1');
    (await app.room.next()).fail(new LockTimeoutError('the method failed'));
    expect((await call).status).toBe(423);
  });

  describe('with several locks', () => {
    beforeEach(() => start());

    it('holds them until the response, as one MultiLock', async () => {
      const response = post('/transfer/0001/2');
      const visit = await app.room.next();
      expect(await areLocked(['account:1', 'account:2'])).toEqual([true, true]);
      visit.leave();
      const { body } = await response;
      expect(body).toMatchObject({ isMulti: true, resources: ['account:1', 'account:2'] });
      expect(body.tokens).toEqual([expect.any(Number), expect.any(Number)]);
      expect(await areLocked(['account:1', 'account:2'])).toEqual([false, false]);
    });

    it('is a 423 without waiting if one is held, and acquires none', async () => {
      await app.locks.using('account:2', async () => {
        const { status, body } = await post('/transfer-now/1/2');
        expect([status, body.message]).toEqual([423, 'account:2 is locked by others.']);
        expect(await app.isLocked('account:1')).toBe(false);
      });
      expect([app.room.visits, app.log.count('granted account:1')]).toEqual([0, 0]);
    });

    it.each(['cart', 'cart-function'])('has those that an array in the arguments names: %s', async (path) => {
      const response = post(`/${path}`, { ids: [7, '3', 7] });
      const visit = await app.room.next();
      expect(visit.of).toBe('goods:7,goods:3');
      expect(await areLocked(['goods:3', 'goods:7'])).toEqual([true, true]);
      expect((await post('/cart', { ids: [1, 3] })).status).toBe(423);
      visit.leave();
      expect((await response).status).toBe(201);
    });

    it.each<[string, path: string, body: object, status: number]>([
      ['an empty list', 'cart', { ids: [] }, 400],
      ['a list in a list', 'cart', { ids: [[1]] }, 400],
      ['an element that cannot form a key', 'cart', { ids: [1, null] }, 400],
      ['too many', 'cart', { ids: Array.from({ length: 1_001 }, (_, i) => i) }, 400],
      ['an empty list of a function', 'cart-function', { ids: [] }, 500],
    ])('of %s locks nothing', async (_, path, body, status) => {
      expect((await post(`/${path}`, body)).status).toBe(status);
      expect([app.room.visits, app.log.lines]).toEqual([0, []]);
    });
  });
});

describe('with awaitRelease: false', () => {
  let proxy: RedisProxy;
  /** From now on nothing reaches Redis. */
  const cut = (): void => proxy.hold('requests');

  const option = { awaitRelease: false };
  const cutAndLeave: Work = (_handler, id) => {
    cut();
    return id;
  };

  @Controller('goods')
  class StreamController {
    @Get(':id')
    @Locked('goods:<id>', option)
    stream(@Param('id') id: string) {
      cut();
      return of(id);
    }
  }

  beforeEach(async () => {
    proxy = await RedisProxy.start(testRedisUrl());
  });
  afterEach(async () => {
    proxy.resume('requests');
    await closeApps();
    await proxy.close();
  });

  it.each<[string, Type, object]>([
    ['handler', goodsController([Locked('goods:<id>', option)], cutAndLeave), {}],
    ['stream', StreamController, {}],
    [
      'service',
      goodsController([], (handler, id) => handler.locks.using(`goods:${id}`, option, () => cutAndLeave(handler, id))),
      {},
    ],
    ['module', goodsController([LOCKED], cutAndLeave), option],
  ])('the response does not wait for the reply to the release (%s)', async (_of, controller, options) => {
    const locks = { redis: proxy.url, requestTimeoutMs: 20_000, ...options };
    const app = await startApp({ controllers: [controller], locks });
    expect((await app.call('/goods/1')).text).toBe('1');
    expect(await app.isLocked('goods:1')).toBe(true);
    proxy.resume('requests');
    // The next request on the connection comes after the release.
    await app.locks.inspect('goods:2');
    expect(await app.isLocked('goods:1')).toBe(false);
  });
});
