import { NestFactory } from '@nestjs/core';
import { Module } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { lockChannels, memory, RedisLockModule } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { page } from '../support/pages.js';
import { watchLocks } from './events.js';
import { ReadinessModule } from './health.js';
import { printLocks } from './list.js';

describe('the page on observability', () => {
  it('has an example that reports grants', async () => {
    const lines: string[] = [];
    watchLocks((line) => lines.push(line));
    await createTestLocks().using('goods:300', () => undefined);
    expect(lines).toEqual([expect.stringMatching(/^goods:300 granted after \d+ ms$/)]);
  });

  it('has an example that lists locks', async () => {
    const lines: string[] = [];
    const locks = createTestLocks({ identity: 'api-7f9c-31' });
    await locks.using('goods:300', () => printLocks(locks, (line) => lines.push(line)));
    expect(lines).toEqual(['goods:300: held by api-7f9c-31, 0 waiting']);
  });

  it('has an example of a health check', async () => {
    @Module({ imports: [RedisLockModule.forRoot({ store: memory() }), ReadinessModule] })
    class AppModule {}
    const app = await NestFactory.create(AppModule, { logger: false });
    try {
      await app.listen(0, '127.0.0.1');
      const response = await fetch(`${await app.getUrl()}/ready`);
      expect(await response.json()).toMatchObject({ status: 'ok', details: { locks: { status: 'up' } } });
    } finally {
      await app.close();
    }
  });

  it('lists every channel', () => {
    const rows = page('docs/observability.md').text.matchAll(/^\| `(nestjs-redis-lock:\w+)`/gm);
    const channels = Object.values(lockChannels).map(({ name }) => String(name));
    expect([...rows].map(([, name]) => name)).toEqual(channels);
  });
});
