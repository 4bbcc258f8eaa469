import { Controller, Get, Injectable, Param } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { of } from 'rxjs';
import { RedisProxy } from '../support/proxy.js';
import type { InstanceOptions } from '../support/redis-locks.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { closeApps, PLATFORMS, type Platform, startApp } from './support/app.js';

let proxy: RedisProxy;

/** From now on nothing reaches Redis. */
const cut = (): void => proxy.hold('requests');

@Injectable()
class StockService {
  @Locked('goods:<id>', { awaitRelease: false })
  async sell(id: number): Promise<string> {
    cut();
    return `sold ${id}`;
  }
}

@Controller()
class StockController {
  constructor(private readonly stock: StockService) {}

  @Get('handler/:id')
  @Locked('goods:<id>', { awaitRelease: false })
  async handler(@Param('id') id: string): Promise<string> {
    cut();
    return `sold ${id}`;
  }

  @Get('stream/:id')
  @Locked('goods:<id>', { awaitRelease: false })
  stream(@Param('id') id: string) {
    cut();
    return of(`sold ${id}`);
  }

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string> {
    return this.stock.sell(Number(id));
  }

  @Get('module/:id')
  @Locked('goods:<id>')
  async module(@Param('id') id: string): Promise<string> {
    cut();
    return `sold ${id}`;
  }
}

async function start(platform: Platform, options: InstanceOptions = {}) {
  proxy = await RedisProxy.start(testRedisUrl());
  const locks = { redis: proxy.url, requestTimeoutMs: 20_000, ...options };
  return startApp({ platform, controllers: [StockController], providers: [StockService], locks });
}

afterEach(async () => {
  proxy.resume('requests');
  await closeApps();
  await proxy.close();
});

describe.each(PLATFORMS)('with awaitRelease: false, on %s', (platform) => {
  it.each([
    ['handler', {}],
    ['stream', {}],
    ['service', {}],
    ['module', { awaitRelease: false }],
  ])('the response does not wait for the reply to the release (%s)', async (path, options) => {
    const app = await start(platform, options);
    expect((await app.call(`/${path}/1`)).text).toBe('sold 1');
    expect(await app.isLocked('goods:1')).toBe(true);
    proxy.resume('requests');
    // The next request on the connection comes after the release.
    await app.locks.inspect('goods:2');
    expect(await app.isLocked('goods:1')).toBe(false);
  });
});
