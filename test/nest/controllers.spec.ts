import {
  BadRequestException,
  CanActivate,
  Controller,
  ForbiddenException,
  Get,
  Header,
  HttpCode,
  Injectable,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Query,
  UseGuards,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { RawRequest } from './support/raw-request.js';
import { Room } from './support/room.js';

@Injectable()
class Doorman implements CanActivate {
  canActivate(): boolean {
    throw new ForbiddenException();
  }
}

@Controller('goods')
class GoodsController {
  constructor(private readonly room: Room) {}

  @Post(':id/buy')
  @Locked('goods:<id>')
  buy(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }

  @Locked('goods:<id>', { waitMs: 0 })
  @Post(':id/grab')
  grab(@Param('id', ParseIntPipe) id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }

  @Post(':id/release')
  @Locked('goods:<id>')
  async release(@Param('id', ParseIntPipe) id: number, @CurrentLock() lock: Lock): Promise<number | undefined> {
    await lock.release();
    return this.room.stay(id);
  }

  @UseGuards(Doorman)
  @Locked('goods:<id>')
  @Get(':id/guarded')
  async guarded(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get(':id/odd')
  @Locked('goods:<id>')
  async odd(@Param('id') _id: string, @Query('size') size?: string): Promise<string> {
    if (size === undefined) throw new NotFoundException('no such goods');
    throw new BadRequestException({ reason: size });
  }

  @HttpCode(202)
  @Locked('goods:<id>')
  @Header('x-below', 'yes')
  @Get(':id/above')
  async above(@Param('id') id: string): Promise<object> {
    return { id };
  }

  @Locked('goods:<id>')
  @HttpCode(202)
  @Header('x-below', 'yes')
  @Get(':id/below')
  async below(@Param('id') id: string): Promise<object> {
    return { id };
  }
}

const post = { method: 'POST' };

describe.each(PLATFORMS)('a controller on %s', (platform) => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [GoodsController], providers: [Doorman] });
  });
  afterEach(closeApps);

  it('runs a handler for one caller at a time', async () => {
    const first = app.call('/goods/300/buy', post);
    const visit = await app.room.next();
    const second = app.call('/goods/300/buy', post);
    await app.log.until('requested goods:300', 2);
    expect(await app.isLocked('goods:300')).toBe(true);
    visit.leave();
    (await app.room.next()).leave();
    expect([(await first).status, (await second).status]).toEqual([201, 201]);
    expect(app.room).toMatchObject({ most: 1, visits: 2 });
    expect(await app.isLocked('goods:300')).toBe(false);
  });

  it('runs a handler for different goods concurrently', async () => {
    const calls = [app.call('/goods/1/buy', post), app.call('/goods/2/buy', post)];
    const visits = [await app.room.next(), await app.room.next()];
    expect(app.room.inside).toBe(2);
    for (const visit of visits) visit.leave();
    await Promise.all(calls);
  });

  it('builds the key from arguments after pipes: /goods/0300 locks goods:300', async () => {
    const first = app.call('/goods/0300/grab', post);
    const visit = await app.room.next();
    expect(await app.isLocked('goods:300')).toBe(true);
    expect((await app.call('/goods/300/grab', post)).status).toBe(423);
    visit.leave();
    expect((await first).text).toBe('300');
    expect(app.room.visits).toBe(1);
  });

  it('acquires no lock if a guard refuses', async () => {
    expect((await app.call('/goods/300/guarded')).status).toBe(403);
    expect(app.log.lines).toEqual([]);
  });

  it('acquires no lock if a pipe refuses', async () => {
    expect((await app.call('/goods/three/buy', post)).status).toBe(400);
    expect(app.log.lines).toEqual([]);
  });

  it("sends the method's own exceptions unchanged and releases the lock", async () => {
    const missing = await app.call('/goods/7/odd');
    expect(missing.status).toBe(404);
    expect(missing.body).toEqual({ statusCode: 404, message: 'no such goods', error: 'Not Found' });
    const bad = await app.call('/goods/7/odd?size=big');
    expect([bad.status, bad.body]).toEqual([400, { reason: 'big' }]);
    expect(app.log.count('granted goods:7')).toBe(2);
    expect(await app.isLocked('goods:7')).toBe(false);
  });

  it.each(['above', 'below'])('keeps route, status and headers of decorators %s @Locked', async (place) => {
    const response = await app.call(`/goods/5/${place}`);
    expect(response.status).toBe(202);
    expect(response.headers.get('x-below')).toBe('yes');
    expect(response.body).toEqual({ id: '5' });
    expect(app.log.lines).toEqual(['requested goods:5', 'granted goods:5', 'released goods:5']);
  });

  it('keeps the lock after a client disconnect until the method has ended', async () => {
    const client = new RawRequest(`${app.url}/goods/300/grab`, 'POST');
    const visit = await app.room.next();
    client.hangUp();
    expect((await app.call('/goods/300/grab', post)).status).toBe(423);
    visit.leave();
    await app.log.until('released goods:300');
    const again = app.call('/goods/300/grab', post);
    (await app.room.next()).leave();
    expect((await again).status).toBe(201);
    expect(app.room.most).toBe(1);
  });

  it('keeps the lock until the method has ended, although that calls lock.release()', async () => {
    const call = app.call('/goods/300/release', post);
    const visit = await app.room.next();
    const isLocked = await app.isLocked('goods:300');
    visit.leave();
    expect([(await call).status, isLocked]).toEqual([201, true]);
    expect(await app.isLocked('goods:300')).toBe(false);
  });

  it('goes on waiting for the lock after a client disconnect, and calls the method', async () => {
    const holder = await app.locks.acquire('goods:300');
    const client = new RawRequest(`${app.url}/goods/300/buy`, 'POST');
    await app.log.until('requested goods:300', 2);
    client.hangUp();
    expect((await app.call('/goods/300/grab', post)).status).toBe(423);
    await holder.release();
    (await app.room.next()).leave();
    await app.log.until('released goods:300', 2);
  });
});
