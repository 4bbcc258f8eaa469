import assert from 'node:assert/strict';
import { it } from 'node:test';
import { NestFactory } from '@nestjs/core';
import { LockService, LockTimeoutError } from 'nestjs-redis-lock';

it('reads the options from the environment', async () => {
  process.env['LOCK_PREFIX'] = 'billing:lock_';
  process.env['LOCK_WAIT_MS'] = '0';
  // The module reads the environment when it is loaded.
  const { AppModule } = await import('../examples/configured.js');
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  try {
    const locks = app.get(LockService);
    const lock = await locks.acquire('goods:301');
    await assert.rejects(locks.acquire('goods:301'), LockTimeoutError);
    assert.match((await locks.inspect('goods:301'))?.key ?? '', /^\{billing:/);
    await lock.release();
  } finally {
    await app.close();
  }
});
