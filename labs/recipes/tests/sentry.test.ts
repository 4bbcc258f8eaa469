import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import * as Sentry from '@sentry/nestjs';
import { Locked, LockConfigError, LockService } from 'nestjs-redis-lock';
import { AppModule } from '../examples/sentry.js';

@Controller()
class GoodsController {
  @Get('busy')
  @Locked('goods:304', { waitMs: 0 })
  busy(): string {
    return 'free';
  }

  @Get('mistake')
  mistake(): never {
    throw new LockConfigError('a mistake of the program');
  }
}

@Module({ imports: [AppModule], controllers: [GoodsController] })
class ShopModule {}

it('replies 423 behind the filter of Sentry, which reports mistakes of the program only', async () => {
  const reported: unknown[] = [];
  Sentry.init({
    dsn: 'http://key@127.0.0.1:1/1',
    beforeSend: (event) => {
      reported.push(event.exception?.values?.[0]?.value);
      return null;
    },
  });
  const logged: unknown[] = [];
  const logger = { log: () => undefined, warn: () => undefined, error: (message: unknown) => logged.push(message) };
  const app = await NestFactory.create(ShopModule, { logger, abortOnError: false });
  try {
    await app.listen(0, '127.0.0.1');
    const call = async (route: string): Promise<Response> => fetch(`${await app.getUrl()}/${route}`);
    const busy = await app.get(LockService).using('goods:304', () => call('busy'));
    assert.deepEqual([busy.status, busy.headers.get('retry-after')], [423, '1']);
    assert.equal(((await busy.json()) as { code: string }).code, 'LOCK_TIMEOUT');
    assert.deepEqual([logged.length, reported], [0, []]);
    assert.equal((await call('mistake')).status, 500);
    await Sentry.flush(10_000);
    assert.deepEqual([logged.length, reported], [1, ['a mistake of the program']]);
  } finally {
    await app.close();
    await Sentry.close();
  }
});
