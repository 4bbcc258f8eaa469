import { Body, Controller, Get, Param, ParseIntPipe, Post, Query } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockParam, LockTimeoutError, resource } from 'nestjs-redis-lock';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';

class OrderDto {
  id!: number;
  shop!: { readonly name: string };
}

@Controller()
class OrdersController {
  @Get('named/:goods')
  @Locked('goods:<id>')
  async named(@LockParam('id') @Param('goods', ParseIntPipe) _goods: number): Promise<string> {
    return 'named';
  }

  @Get('route/:id')
  @Locked('goods:<id>:<size>')
  async route(@Query('size') _s: string, @Param('id') _i: string): Promise<string> {
    return 'route';
  }

  @Post('body')
  @Locked('goods:<order.shop.name>:<0.id>')
  async body(@Body() order: OrderDto): Promise<number> {
    return order.id;
  }

  @Post('function')
  @Locked((order: OrderDto) => resource`goods:${order.shop.name}:${order.id}`)
  async function(@Body() order: OrderDto): Promise<number> {
    return order.id;
  }

  @Get('current/:id')
  @Locked('goods:<id>')
  async current(@CurrentLock() lock: Lock, @Param('id') id: string): Promise<object> {
    lock.assertHeld();
    return { id, resource: lock.resource, key: lock.key, token: lock.fencingToken, isLock: lock instanceof Lock };
  }

  @Get('skip/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: 'skip' })
  async skip(@Param('id') id: string): Promise<string | undefined> {
    return id;
  }

  @Get('instead/:id')
  @Locked((id: string) => `goods:${id}`, { waitMs: 0, onBusy: answerInstead })
  async instead(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('failing/:id')
  @Locked('goods:<id>', { onBusy: 'skip' })
  async failing(@Param('id') id: string): Promise<string | undefined> {
    throw new LockTimeoutError(`the method failed for ${id}`);
  }

  readonly busyText = 'come again for';
}

function answerInstead(this: OrdersController, error: LockTimeoutError, id: string): string {
  return `${this.busyText} ${id}: ${error.code}`;
}

describe.each(PLATFORMS)('a handler on %s', (platform) => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [OrdersController] });
  });
  afterEach(closeApps);

  const send = (path: string, body: object) =>
    app.call(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });

  describe('gets its key', () => {
    it('from the parameter with @LockParam, before any other name', async () => {
      await app.call('/named/0300');
      expect(app.log.lines).toContain('granted goods:300');
    });

    it("from Nest's own decorators, in any order", async () => {
      await app.call('/route/300?size=xl');
      expect(app.log.lines).toContain('granted goods:300:xl');
    });

    it('from a path into the body, and from an index', async () => {
      expect((await send('/body', { id: 3, shop: { name: 'corner' } })).text).toBe('3');
      expect(app.log.lines).toContain('granted goods:corner:3');
    });

    it('from a function of the arguments', async () => {
      await send('/function', { id: 3, shop: { name: 'a:b' } });
      expect(app.log.lines).toContain('granted goods:a%3Ab:3');
    });

    it('from no missing value: that is an error, and nothing is locked', async () => {
      const response = await send('/body', { id: 3, shop: {} });
      expect([response.status, response.body.code]).toEqual([400, 'LOCK_KEY']);
      expect(response.body.message).toBe("The body's property 'shop.name' is missing.");
      expect(app.log.lines).toEqual([]);
    });

    it('from encoded values that cannot reach another key', async () => {
      await app.call('/skip/1%7Dx%7B%3A2');
      expect(app.log.lines).toContain('granted goods:1%7Dx%7B%3A2');
    });
  });

  it('gets its lock by @CurrentLock', async () => {
    const { body } = await app.call('/current/300');
    expect(body).toEqual({
      id: '300',
      resource: 'goods:300',
      key: `{${app.prefix}goods}:300`,
      token: expect.any(Number),
      isLock: true,
    });
    expect((await app.call('/current/300')).body.token).toBeGreaterThan(body.token as number);
  });

  describe('with onBusy', () => {
    it("'skip' is not called", async () => {
      const holder = await app.locks.acquire('goods:1');
      const response = await app.call('/skip/1');
      expect([response.status, response.text]).toEqual([200, '']);
      expect((await app.call('/skip/2')).text).toBe('2');
      await holder.release();
    });

    it('as a function returns its result, called on the instance with the arguments', async () => {
      const holder = await app.locks.acquire('goods:1');
      expect((await app.call('/instead/1')).text).toBe('come again for 1: LOCK_TIMEOUT');
      expect((await app.call('/instead/2')).text).toBe('2');
      await holder.release();
    });

    it("does not replace the method's own error", async () => {
      expect((await app.call('/failing/1')).status).toBe(423);
    });
  });
});
