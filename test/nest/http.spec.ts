import {
  BadRequestException,
  Body,
  type CanActivate,
  Controller,
  ForbiddenException,
  Get,
  Header,
  HttpCode,
  Injectable,
  Param,
  ParseIntPipe,
  Post,
  Query,
  UseGuards,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CurrentLock,
  Lock,
  Locked,
  LockParam,
  LockService,
  LockTimeoutError,
  MultiLock,
  resource,
} from 'nestjs-redis-lock';
import { of } from 'rxjs';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppResponse, closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
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

  async canActivate(): Promise<boolean> {
    return (await this.modules.get(GoodsController, { strict: false }).called('1')) === '1';
  }
}

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(id: string, @CurrentLock() lock?: Lock): Promise<string> {
    lock?.assertHeld();
    return id;
  }
}

interface Order {
  readonly id: number;
  readonly shop: { readonly name: string };
}

interface Cart {
  readonly ids: readonly unknown[];
  readonly shops: readonly string[];
}

function answerInstead(this: GoodsController, error: LockTimeoutError, id: string): string {
  return `${this.busyText} ${id}: ${error.code}`;
}

@Controller()
class GoodsController {
  readonly busyText = 'come again for';
  private left = false;

  constructor(
    private readonly room: Room,
    private readonly goods: GoodsService,
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

  @Post('release/:id')
  @Locked('goods:<id>')
  async release(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    await lock.release();
    return this.room.stay(id);
  }

  @UseGuards(Doorman)
  @Locked('goods:<id>')
  @Post('guarded/:id')
  async guarded(@Param('id') id: string): Promise<string> {
    return id;
  }

  @UseGuards(CallingGuard)
  @Locked('goods:<id>')
  @Post('called/:id')
  async called(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Post('odd/:id')
  @Locked('goods:<id>')
  async odd(@Param('id') id: string): Promise<string> {
    throw new BadRequestException({ reason: id });
  }

  @Post('nested/:id')
  @Locked('goods:<id>')
  nested(@Param('id') id: string): Promise<string> {
    return this.goods.buy(id);
  }

  @Post('recursive/:id')
  @Locked('goods:<id>')
  async recursive(@Param('id') id: string): Promise<string | undefined> {
    if (this.left) return id;
    this.left = true;
    await this.recursive('2');
    return this.room.stay(id);
  }

  @HttpCode(202)
  @Locked('goods:<id>')
  @Header('x-below', 'yes')
  @Post('above/:id')
  async above(@Param('id') id: string): Promise<object> {
    return { id };
  }

  @Locked('goods:<id>')
  @HttpCode(202)
  @Header('x-below', 'yes')
  @Post('below/:id')
  async below(@Param('id') id: string): Promise<object> {
    return { id };
  }

  @Post('named/:goods')
  @Locked('goods:<id>')
  async named(@LockParam('id') @Param('goods', ParseIntPipe) _goods: number): Promise<string> {
    return 'named';
  }

  @Post('route/:id')
  @Locked('goods:<id>:<size>')
  async route(@Query('size') _s: string, @Param('id') _i: string): Promise<string> {
    return 'route';
  }

  @Post('body')
  @Locked('goods:<order.shop.name>:<0.id>')
  async body(@Body() order: Order): Promise<number> {
    return order.id;
  }

  @Post('function')
  @Locked((order: Order) => resource`goods:${order.shop.name}:${order.id}`)
  async function(@Body() order: Order): Promise<number> {
    return order.id;
  }

  @Post('current/:id')
  @Locked('goods:<id>')
  async current(@CurrentLock() lock: Lock, @Param('id') _id: string): Promise<object> {
    lock.assertHeld();
    return { resource: lock.resource, key: lock.key, token: lock.fencingToken, isLock: lock instanceof Lock };
  }

  @Post('skip/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: 'skip' })
  async skip(@Param('id') id: string): Promise<string | undefined> {
    return id;
  }

  @Post('instead/:id')
  @Locked((id: string) => `goods:${id}`, { waitMs: 0, onBusy: answerInstead })
  async instead(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Post('failing/:id')
  @Locked('goods:<id>', { onBusy: 'skip' })
  async failing(@Param('id') id: string): Promise<string | undefined> {
    throw new LockTimeoutError(`the method failed for ${id}`);
  }

  @Post('read/:shop')
  @Locked('catalogue:<shop>', { mode: 'shared', waitMs: 0 })
  read(@Param('shop') shop: string): Promise<string | undefined> {
    return this.room.stay(shop);
  }

  @Post('replace/:shop')
  @Locked('catalogue:<shop>', { waitMs: 0 })
  replace(@Param('shop') shop: string): Promise<string | undefined> {
    return this.room.stay(shop);
  }

  @Post('order/:name')
  @Locked('supplier:<name>', { permits: 2, waitMs: 0 })
  order(@Param('name') name: string): Promise<string | undefined> {
    return this.room.stay(name);
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

  @Post('shops')
  @Locked('goods:<cart.shops>:<...cart.ids>', { waitMs: 0 })
  async shops(@Body() cart: Cart): Promise<number> {
    return cart.ids.length;
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
  beforeEach(async () => {
    const providers = [Doorman, CallingGuard, GoodsService];
    app = await startApp({ platform, controllers: [GoodsController], providers });
  });

  const post = (path: string, body?: object): Promise<AppResponse> =>
    app.call(path, {
      method: 'POST',
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  const statusesOf = async (calls: readonly Promise<AppResponse>[]): Promise<number[]> =>
    (await Promise.all(calls)).map(({ status }) => status);
  const areLocked = (resources: readonly string[]) => Promise.all(resources.map((one) => app.isLocked(one)));

  it('runs for one caller at a time', async () => {
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

  it('runs concurrently for different goods', async () => {
    const calls = [post('/buy/1'), post('/buy/2')];
    const visits = [await app.room.next(), await app.room.next()];
    expect(app.room.inside).toBe(2);
    for (const visit of visits) visit.leave();
    await Promise.all(calls);
  });

  it('builds the key from arguments after pipes: /grab/0300 locks goods:300', async () => {
    const first = post('/grab/0300');
    const visit = await app.room.next();
    expect(await app.isLocked('goods:300')).toBe(true);
    expect((await post('/grab/300')).status).toBe(423);
    visit.leave();
    expect((await first).text).toBe('300');
    expect(app.room.visits).toBe(1);
  });

  it.each([
    ['guard', '/guarded/300', 403],
    ['pipe', '/buy/three', 400],
  ])('acquires no lock if a %s refuses', async (_kind, path, status) => {
    expect((await post(path)).status).toBe(status);
    expect(app.log.lines).toEqual([]);
  });

  it('and a guard that calls its method take a lock each', async () => {
    expect((await post('/called/1')).text).toBe('1');
    const own = ['requested goods:1', 'granted goods:1', 'released goods:1'];
    expect(app.log.lines).toEqual([...own, ...own]);
  });

  it("sends the method's own exceptions unchanged and releases the lock", async () => {
    const { status, body } = await post('/odd/7');
    expect([status, body]).toEqual([400, { reason: '7' }]);
    expect(app.log.count('granted goods:7')).toBe(1);
    expect(await app.isLocked('goods:7')).toBe(false);
  });

  it('nests a service with the same lock, without a request', async () => {
    expect((await post('/nested/1')).text).toBe('1');
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it('that calls itself releases the lock of the inner call at the end of that call', async () => {
    const call = post('/recursive/1');
    const visit = await app.room.next();
    expect(await areLocked(['goods:1', 'goods:2'])).toEqual([true, false]);
    visit.leave();
    expect((await call).text).toBe('1');
  });

  it.each(['above', 'below'])('keeps route, status and headers of decorators %s @Locked', async (place) => {
    const response = await post(`/${place}/5`);
    expect([response.status, response.headers.get('x-below'), response.body]).toEqual([202, 'yes', { id: '5' }]);
    expect(app.log.lines).toEqual(['requested goods:5', 'granted goods:5', 'released goods:5']);
  });

  it('keeps the lock after a client disconnect until the method has ended', async () => {
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
    const call = post('/release/300');
    const visit = await app.room.next();
    const isLocked = await app.isLocked('goods:300');
    visit.leave();
    expect([(await call).status, isLocked]).toEqual([201, true]);
    expect(await app.isLocked('goods:300')).toBe(false);
  });

  it('goes on waiting for the lock after a client disconnect, and calls the method', async () => {
    const holder = await app.locks.acquire('goods:300');
    const client = new RawRequest(`${app.url}/buy/300`, 'POST');
    await app.log.until('requested goods:300', 2);
    client.hangUp();
    expect((await post('/grab/300')).status).toBe(423);
    await holder.release();
    (await app.room.next()).leave();
    await app.log.until('released goods:300', 2);
  });

  it.each<[from: string, path: string, body: object | undefined, locked: string]>([
    ['the parameter with @LockParam, before any other name', '/named/0300', undefined, 'goods:300'],
    ["Nest's own decorators, in any order", '/route/300?size=xl', undefined, 'goods:300:xl'],
    ['a path into the body, and an index', '/body', { id: 3, shop: { name: 'corner' } }, 'goods:corner:3'],
    ['a function of the arguments', '/function', { id: 3, shop: { name: 'a:b' } }, 'goods:a%3Ab:3'],
    ['encoded values that cannot reach another key', '/skip/1%7Dx%7B%3A2', undefined, 'goods:1%7Dx%7B%3A2'],
  ])('gets its key from %s', async (_from, path, body, locked) => {
    expect((await post(path, body)).status).toBe(201);
    expect(app.log.lines).toContain(`granted ${locked}`);
  });

  it('gets its lock by @CurrentLock', async () => {
    const { body } = await post('/current/300');
    const key = `{${app.prefix}goods}:300`;
    expect(body).toEqual({ resource: 'goods:300', key, token: expect.any(Number), isLock: true });
    expect((await post('/current/300')).body.token).toBeGreaterThan(body.token as number);
  });

  it('that is busy is replaced by onBusy, called on the instance with the arguments', async () => {
    await app.locks.using('goods:1', async () => {
      const skipped = await post('/skip/1');
      expect([skipped.status, skipped.text]).toEqual([201, '']);
      expect((await post('/instead/1')).text).toBe('come again for 1: LOCK_TIMEOUT');
    });
    expect([(await post('/skip/1')).text, (await post('/instead/1')).text]).toEqual(['1', '1']);
    // The method's own error is not replaced.
    expect((await post('/failing/1')).status).toBe(423);
  });

  it('with a shared lock runs beside readers, and without an exclusive one', async () => {
    const readers = [post('/read/1'), post('/read/1')];
    const inside = [await app.room.next(), await app.room.next()];
    expect((await post('/replace/1')).status).toBe(423);
    for (const visit of inside) visit.leave();
    expect(await statusesOf(readers)).toEqual([201, 201]);
    const writer = post('/replace/1');
    const visit = await app.room.next();
    expect((await post('/read/1')).status).toBe(423);
    visit.leave();
    expect((await writer).status).toBe(201);
  });

  it('with permits runs at most that many times at once', async () => {
    const orders = [post('/order/1'), post('/order/1')];
    const inside = [await app.room.next(), await app.room.next()];
    expect((await post('/order/1')).status).toBe(423);
    for (const visit of inside) visit.leave();
    expect(await statusesOf(orders)).toEqual([201, 201]);
  });

  describe('with several locks', () => {
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

    it('does not deadlock if the lists of two requests overlap', async () => {
      const requests = Array.from({ length: 8 }, (_, i) => post(i % 2 === 0 ? '/transfer/1/2' : '/transfer/2/1'));
      for (const _ of requests) (await app.room.next()).leave();
      expect(await statusesOf(requests)).toEqual(requests.map(() => 201));
      expect(app.room.most).toBe(1);
      expect(new Set(app.room.visited)).toEqual(new Set(['1 to 2', '2 to 1']));
    });

    it('of the same resource has one', async () => {
      const response = post('/transfer/1/1');
      (await app.room.next()).leave();
      expect((await response).body).toMatchObject({ resources: ['account:1'] });
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
      ['a list that is not spread', 'shops', { ids: [1], shops: ['a'] }, 400],
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

  @Injectable()
  class StockService {
    @Locked('goods:<id>', { awaitRelease: false })
    async sell(id: string): Promise<string> {
      cut();
      return id;
    }
  }

  @Controller()
  class StockController {
    constructor(private readonly stock: StockService) {}

    @Get('handler/:id')
    @Locked('goods:<id>', { awaitRelease: false })
    async handler(@Param('id') id: string): Promise<string> {
      cut();
      return id;
    }

    @Get('stream/:id')
    @Locked('goods:<id>', { awaitRelease: false })
    stream(@Param('id') id: string) {
      cut();
      return of(id);
    }

    @Get('service/:id')
    service(@Param('id') id: string): Promise<string> {
      return this.stock.sell(id);
    }

    @Get('module/:id')
    @Locked('goods:<id>')
    async module(@Param('id') id: string): Promise<string> {
      cut();
      return id;
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

  it.each(['handler', 'stream', 'service', 'module'])(
    'the response does not wait for the reply to the release (%s)',
    async (path) => {
      const locks = { redis: proxy.url, requestTimeoutMs: 20_000, ...(path === 'module' && { awaitRelease: false }) };
      const app = await startApp({ controllers: [StockController], providers: [StockService], locks });
      expect((await app.call(`/${path}/1`)).text).toBe('1');
      expect(await app.isLocked('goods:1')).toBe(true);
      proxy.resume('requests');
      // The next request on the connection comes after the release.
      await app.locks.inspect('goods:2');
      expect(await app.isLocked('goods:1')).toBe(false);
    },
  );
});
