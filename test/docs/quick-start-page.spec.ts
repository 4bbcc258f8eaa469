import { ConsoleLogger, type INestApplication, Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { page } from '../support/pages.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { eventually } from '../support/async.js';
import { LockService } from 'nestjs-redis-lock';
import type { Server } from 'node:http';

let app: INestApplication | undefined;
const before = process.env['PORT'];

// The page makes its application with Nest's own log.
beforeAll(() => Logger.overrideLogger(false));
afterAll(() => Logger.overrideLogger(new ConsoleLogger()));
beforeEach(() => {
  process.env['REDIS_URL'] = testRedisUrl();
  process.env['PORT'] = '0';
});
afterEach(async () => {
  await app?.close();
  app = undefined;
  if (before === undefined) delete process.env['PORT'];
  else process.env['PORT'] = before;
});

const { text } = page('docs/quick-start.md');

describe('the page Quick start', () => {
  it('has an application that replies as the page shows', async () => {
    const { AppModule } = await import('./quick-start-page/app.module.js');
    const { SeatController } = await import('./quick-start-page/seat.controller.js');
    const { SeatService } = await import('./quick-start-page/seat.service.js');
    const create = jest.spyOn(NestFactory, 'create');
    await import('./quick-start-page/main.js');
    const started = (app = (await create.mock.results[0]?.value) as INestApplication);
    await eventually('main.ts listens', () => (started.getHttpServer() as Server).listening);
    expect(started.select(AppModule).get(SeatController)).toBeDefined();
    const url = await started.getUrl();
    const post = (path: string) => fetch(`${url}/seats/${path}`, { method: 'POST', headers: { connection: 'close' } });

    const both = await Promise.all(['ada', 'bob'].map(async (buyer) => (await post(`7/book/${buyer}`)).text()));
    const [winner] = both.flatMap((reply) => /^seat 7 is sold to (\w+)$/.exec(reply)?.[1] ?? []);
    expect(both.toSorted()).toEqual([`seat 7 is sold to ${winner}`, 'seat 7 is taken']);
    expect(text).toContain('```text\nseat 7 is sold to ada\nseat 7 is taken\n```');
    expect(await started.get(SeatService).cancel(7)).toBe(true);

    const lock = await started.get(LockService).acquire('seat:8');
    const refused = await post('8/try/bob');
    const reply = `HTTP/1.1 ${refused.status} Locked\nRetry-After: ${refused.headers.get('retry-after')}\n\n`;
    expect(text).toContain(`\`\`\`text\n${reply}${await refused.text()}\n\`\`\``);
    await lock.release();
    await eventually('seat 8 is sold', async () => (await (await post('8/try/bob')).text()).includes('sold to bob'));
  });

  it('has a test that needs no Redis', async () => {
    process.env['REDIS_URL'] = 'redis://127.0.0.1:1';
    const { sellOneSeatTwice } = await import('./quick-start-page/seat.example.js');
    expect(await sellOneSeatTwice()).toEqual([true, false]);
  });
});
