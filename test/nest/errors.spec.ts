import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Get,
  HttpStatus,
  Injectable,
  Param,
  UseFilters,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked, LockTimeoutError } from 'nestjs-redis-lock';
import { eventually } from '../support/async.js';
import { RedisProxy } from '../support/proxy.js';
import { testRedisUrl } from '../support/shared-redis.js';
import {
  type AppResponse,
  type AppSetUp,
  closeApps,
  type Platform,
  PLATFORMS,
  rawRedis,
  keyOf,
  startApp,
} from './support/app.js';

interface Reply {
  status?(code: number): { json?(body: unknown): void; send(body: unknown): void };
}

function reply(host: ArgumentsHost, body: object, status: number): void {
  host.switchToHttp().getResponse<Required<Reply>>().status(status).send(body);
}

@Catch(LockTimeoutError)
class TeapotFilter implements ExceptionFilter {
  catch(error: LockTimeoutError, host: ArgumentsHost): void {
    reply(host, { resource: error.resource }, HttpStatus.I_AM_A_TEAPOT);
  }
}

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(id: string): Promise<string> {
    return id;
  }
}

@Controller()
class GoodsController {
  constructor(private readonly goods: GoodsService) {}

  @Get('grab/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async grab(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string> {
    return this.goods.buy(id);
  }

  @Get('own-above/:id')
  @UseFilters(TeapotFilter)
  @Locked('goods:<id>', { waitMs: 0 })
  async ownAbove(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('own-below/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseFilters(TeapotFilter)
  async ownBelow(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('key/:id')
  @Locked((id: string) => `goods|${id}`)
  async key(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('reentry/:id')
  @Locked('goods:<id>', { mode: 'shared' })
  async reentry(@Param('id') id: string): Promise<string> {
    return this.alone(id);
  }

  @Locked('goods:<id>')
  async alone(id: string): Promise<string> {
    return id;
  }
}

afterEach(closeApps);

const start = (platform: Platform, setUp: AppSetUp = {}) =>
  startApp({
    platform,
    controllers: [GoodsController],
    ...setUp,
    providers: [GoodsService, ...(setUp.providers ?? [])],
  });

function expectLocked({ status, headers, body }: AppResponse): void {
  expect(status).toBe(423);
  expect(headers.get('retry-after')).toBe('1');
  expect(body).toEqual({
    statusCode: 423,
    code: 'LOCK_TIMEOUT',
    message: 'goods:1 is locked by others.',
    error: 'Locked',
  });
}

describe.each(PLATFORMS)('on %s', (platform) => {
  describe('a busy lock', () => {
    it.each(['grab', 'service'])('is a 423 with Retry-After (%s)', async (route) => {
      const app = await start(platform);
      const holder = await app.locks.acquire('goods:1');
      expectLocked(await app.call(`/${route}/1`));
      expect(app.logged).toEqual([]);
      await holder.release();
    });

    it.each(['own-above', 'own-below'])(
      "gets the response of the user's filter on the handler (%s @Locked)",
      async (route) => {
        const app = await start(platform);
        const holder = await app.locks.acquire('goods:1');
        const { status, body } = await app.call(`/${route}/1`);
        expect([status, body]).toEqual([418, { resource: 'goods:1' }]);
        await holder.release();
      },
    );
  });

  it.each([
    ['key', 'LOCK_KEY', /goods\|1/],
    ['reentry', 'LOCK_REENTRY', /goods:1 is already held by the caller/],
  ])('a programming error is a 500 with its code, and is logged (%s)', async (route, code, logged) => {
    const app = await start(platform);
    const { status, headers, body } = await app.call(`/${route}/1`);
    expect([status, headers.get('retry-after')]).toEqual([500, null]);
    expect(body).toEqual({ statusCode: 500, code, message: 'Internal Server Error', error: 'Internal Server Error' });
    expect(app.logged.join('\n')).toMatch(logged);
  });
});

describe('an unavailable Redis', () => {
  let proxy: RedisProxy;
  beforeEach(async () => {
    proxy = await RedisProxy.start(testRedisUrl());
  });
  afterEach(() => proxy.close());

  const unavailable = {
    statusCode: 503,
    code: 'LOCK_UNAVAILABLE',
    message: 'Service Unavailable',
    error: 'Service Unavailable',
  };

  it('is a 503 with Retry-After until Redis is back', async () => {
    const app = await start('express', {
      locks: { redis: proxy.url, requestTimeoutMs: 1_000, unavailableAfterMs: 500 },
    });
    // To connect may take longer than unavailableAfterMs on a busy machine.
    await eventually('it is served', async () => (await app.call('/grab/1')).text === '1');
    const before = app.logged.length;
    await proxy.refuseConnections();
    proxy.reset();
    const { status, headers, body } = await app.call('/grab/1');
    expect([status, headers.get('retry-after'), body]).toEqual([503, '1', unavailable]);
    await proxy.acceptConnections();
    await eventually('Redis is back', async () => (await app.call('/grab/2')).text === '2');
    expect(app.logged.slice(before).filter((line) => line.includes('cannot be reached'))).toHaveLength(1);
  });

  it('does not prevent the application from starting, and gives one warning', async () => {
    await proxy.refuseConnections();
    const app = await start('express', {
      locks: { redis: proxy.url, requestTimeoutMs: 100, unavailableAfterMs: 100, waitMs: 0 },
    });
    const responses = [await app.call('/grab/1'), await app.call('/grab/1')];
    expect(responses.map(({ status }) => status)).toEqual([503, 503]);
    // An application of an earlier test may still log.
    expect(app.logged.filter((line) => line.startsWith('warn') && line.includes(proxy.url))).toHaveLength(1);
    await proxy.acceptConnections();
    await eventually('Redis is back', async () => (await app.call('/grab/2')).text === '2');
  });

  it('has a different code from too few replicas, which is also a 503', async () => {
    const app = await start('express', { locks: { replicas: { min: 99, timeoutMs: 20 } } });
    const { status, headers, body } = await app.call('/grab/1');
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    expect(body).toEqual({ ...unavailable, code: 'LOCK_REPLICATION' });
  });

  it('is a 503 even if the key holds another type', async () => {
    const app = await start('express');
    await rawRedis().hset(keyOf(app.prefix, 'goods:1'), 'field', 'value');
    const { status, body } = await app.call('/grab/1');
    expect([status, body]).toEqual([503, unavailable]);
    await rawRedis().del(keyOf(app.prefix, 'goods:1'));
  });
});
