import { Controller, Get, Param } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockUnavailableError } from 'nestjs-redis-lock';
import { from, type Observable } from 'rxjs';
import { eventually } from '../support/async.js';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppResponse, closeApps, type Platform, PLATFORMS, startApp, type TestApp } from './support/app.js';

@Controller()
class PricesController {
  private computed = 0;
  bought = 0;

  @Get('buy/:id')
  @Locked('goods:<id>', { waitMs: 600_000 })
  async buy(@Param('id') id: string): Promise<string> {
    this.bought += 1;
    return id;
  }

  @Get('skip/:id')
  @Locked('price:<id>', { waitMs: 0, onUnavailable: 'skip' })
  async skip(@Param('id') id: string): Promise<string | undefined> {
    return id;
  }

  @Get('price/:id')
  @Locked('price:<id>', { waitMs: 0, onUnavailable: computeWithoutLock })
  async price(@Param('id') id: string): Promise<string> {
    return this.compute(id);
  }

  @Get('stream/:id')
  @Locked('price:<id>', { waitMs: 0, onUnavailable: (_error, id: string) => from([`no lock for ${id}`]) })
  stream(@Param('id') id: string): Observable<string> {
    return from([id]);
  }

  @Get('failing/:id')
  @Locked('price:<id>', { onUnavailable: 'skip' })
  async failing(@Param('id') id: string): Promise<string | undefined> {
    throw new LockUnavailableError(`the method failed for ${id}`);
  }

  compute(id: string): string {
    return `${id} was computed ${++this.computed} times`;
  }
}

function computeWithoutLock(this: PricesController, error: LockUnavailableError, id: string): string {
  return `${error.code}: ${this.compute(id)}`;
}

describe('a handler without Redis', () => {
  let proxy: RedisProxy;
  let app: TestApp;

  async function start(platform: Platform): Promise<void> {
    const locks = { redis: proxy.url, unavailableAfterMs: 100 };
    app = await startApp({ platform, controllers: [PricesController], locks });
    // To connect may take longer than unavailableAfterMs on a busy machine.
    await eventually('it is served', async () => (await app.call('/skip/0')).text === '0');
  }

  /** Returns once an outage is known. */
  async function goDown(): Promise<void> {
    await proxy.refuseConnections();
    proxy.reset();
    await app.locks.acquire('goods:0').catch(() => undefined);
  }

  beforeEach(async () => {
    proxy = await RedisProxy.start(testRedisUrl());
  });
  afterEach(async () => {
    await closeApps();
    await proxy.close();
  });

  it.each(PLATFORMS)('replies 503 at once on %s, although clients would wait long for others', async (platform) => {
    await start(platform);
    expect((await app.call('/buy/1')).text).toBe('1');
    await goDown();
    const calls = Array.from({ length: 100 }, (_, id): Promise<AppResponse> => app.call(`/buy/${id}`));
    for (const { status, headers, body } of await Promise.all(calls)) {
      expect([status, headers.get('retry-after'), body.code]).toEqual([503, '1', 'LOCK_UNAVAILABLE']);
    }
    expect(app.nest.get(PricesController).bought).toBe(1);
    await proxy.acceptConnections();
    await eventually('Redis is back', async () => (await app.call('/buy/2')).text === '2');
  });

  it('is replaced by onUnavailable, which is called on the instance with the arguments', async () => {
    await start('express');
    expect((await app.call('/skip/1')).text).toBe('1');
    expect((await app.call('/price/1')).text).toBe('1 was computed 1 times');
    expect((await app.call('/stream/1')).text).toBe('1');
    await goDown();
    const { status, text } = await app.call('/skip/1');
    expect([status, text]).toEqual([200, '']);
    expect((await app.call('/price/2')).text).toBe('LOCK_UNAVAILABLE: 2 was computed 2 times');
    expect((await app.call('/stream/2')).text).toBe('no lock for 2');
  });

  it('keeps its own errors with onUnavailable, and a busy lock is not an outage', async () => {
    await start('express');
    expect((await app.call('/failing/1')).status).toBe(503);
    const holder = await app.locks.acquire('price:1');
    expect((await app.call('/skip/1')).status).toBe(423);
    await holder.release();
  });
});
