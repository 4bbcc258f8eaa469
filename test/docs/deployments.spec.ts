import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-redis-lock';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { eventually } from '../support/async.js';
import { ReadyController } from './ready.js';

describe('the page on deployments', () => {
  it('has a readiness check that is down in a shutdown while requests are served', async () => {
    const module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot()],
      controllers: [ReadyController],
    }).compile();
    const app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    const url = `${await app.getUrl()}/ready`;
    const check = async (): Promise<number> => (await fetch(url, { headers: { connection: 'close' } })).status;
    expect(await check()).toBe(200);
    const closing = app.close();
    const locks = app.get(LockService);
    await eventually('the shutdown begins', () => locks.isShuttingDown);
    expect(await check()).toBe(503);
    expect(await locks.using('goods:300', () => 'served')).toBe('served');
    await closing;
  });
});
