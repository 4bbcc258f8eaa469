import { Controller, Get, Param, Post } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Locked } from 'nestjs-redis-lock';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { Room, type Visit } from './support/room.js';

@Controller()
class CatalogueController {
  constructor(private readonly room: Room) {}

  @Get('catalogue/:shop')
  @Locked('catalogue:<shop>', { mode: 'shared', waitMs: 0 })
  read(@Param('shop') shop: string): Promise<string | undefined> {
    return this.room.stay(shop);
  }

  @Post('catalogue/:shop')
  @Locked('catalogue:<shop>', { waitMs: 0 })
  replace(@Param('shop') shop: string): Promise<string | undefined> {
    return this.room.stay(shop);
  }

  @Get('supplier/:name')
  @Locked('supplier:<name>', { permits: 2, waitMs: 0 })
  order(@Param('name') name: string): Promise<string | undefined> {
    return this.room.stay(name);
  }
}

function leave(visits: readonly Visit[]): void {
  for (const visit of visits) visit.leave();
}

afterEach(closeApps);

describe.each(PLATFORMS)('handlers on %s', (platform) => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [CatalogueController] });
  });

  it('with shared locks run concurrently, and without an exclusive one', async () => {
    const readers = [app.call('/catalogue/1'), app.call('/catalogue/1')];
    const inside = [await app.room.next(), await app.room.next()];
    expect((await app.call('/catalogue/1', { method: 'POST' })).status).toBe(423);
    leave(inside);
    expect((await Promise.all(readers)).map(({ status }) => status)).toEqual([200, 200]);
    const writer = app.call('/catalogue/1', { method: 'POST' });
    const visit = await app.room.next();
    expect((await app.call('/catalogue/1')).status).toBe(423);
    leave([visit]);
    expect((await writer).status).toBe(201);
  });

  it('with permits run at most that many at once', async () => {
    const orders = [app.call('/supplier/1'), app.call('/supplier/1')];
    const inside = [await app.room.next(), await app.room.next()];
    expect((await app.call('/supplier/1')).status).toBe(423);
    leave(inside);
    expect((await Promise.all(orders)).map(({ status }) => status)).toEqual([200, 200]);
  });
});
