import { once } from 'node:events';
import { Controller, Get, Injectable, Param } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockLostError } from 'nestjs-redis-lock';
import { closeApps, keyOf, PLATFORMS, rawRedis, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';
import { Around } from './support/wrappers.js';
import { onStoppedServer } from './support/stopped-app.js';

const clock = onStoppedServer();

@Injectable()
class GoodsService {
  lock: Lock | undefined;

  constructor(private readonly room: Room) {}

  @Locked('goods:<id>', { ttlMs: 1_500 })
  async buy(id: number, @CurrentLock() lock?: Lock): Promise<number | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }

  @Locked('goods:<id>', { maxHoldMs: 60 })
  async hanging(id: number, @CurrentLock() lock?: Lock): Promise<number | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }
}

const commit = async ({ commits }: { commits: unknown[] }, call: () => Promise<unknown>): Promise<unknown> => {
  const result = await call();
  commits.push(result);
  return result;
};

@Controller()
class GoodsController {
  lock: Lock | undefined;
  readonly commits: unknown[] = [];

  constructor(private readonly room: Room) {}

  @Get('careful/:id')
  @Locked('goods:<id>', { ttlMs: 1_500 })
  careful(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }

  @Get('committed/:id')
  @Around(commit)
  @Locked('goods:<id>', { ttlMs: 1_500 })
  committed(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }

  @Get('careless/:id')
  @Locked('goods:<id>', { ttlMs: 1_500, onLost: 'ignore' })
  careless(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }
}

/** Deletes the key, or writes another owner into it. */
async function takeAway(app: TestApp, lock: Lock | undefined, by: 'deletion' | 'another holder'): Promise<void> {
  const { signal } = lock as Lock;
  const aborted = once(signal, 'abort');
  const key = keyOf(app.prefix, 'goods:1');
  await (by === 'deletion' ? rawRedis().del(key) : rawRedis().set(key, 'another:1', 'PX', 60_000));
  await clock().until(aborted);
  expect(signal.reason).toBeInstanceOf(LockLostError);
}

afterEach(closeApps);

describe.each(PLATFORMS)('a lock that is lost while a handler on %s runs', (platform) => {
  let app: TestApp;
  let controller: GoodsController;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [GoodsController] });
    controller = app.nest.get(GoodsController);
  });

  it.each(['deletion', 'another holder'] as const)('by %s aborts its signal at once and is a 500', async (by) => {
    const call = app.call('/careful/1');
    const visit = await app.room.next();
    await takeAway(app, controller.lock, by);
    expect(app.room.inside).toBe(1);
    expect(() => controller.lock?.assertHeld()).toThrow(LockLostError);
    visit.leave();
    const { status, body } = await call;
    expect([status, body.code]).toEqual([500, 'LOCK_LOST']);
    expect(app.logged).toEqual([expect.stringMatching(/^warn .*The lock on goods:1 was lost/)]);
    expect(app.log.count('released')).toBe(0);
    // The key of the other holder stays.
    expect(await app.isLocked('goods:1')).toBe(by === 'another holder');
    await rawRedis().del(keyOf(app.prefix, 'goods:1'));
  });

  it('logs the error of the method too, which nobody else would', async () => {
    const call = app.call('/careful/1');
    const visit = await app.room.next();
    await takeAway(app, controller.lock, 'deletion');
    visit.fail(new Error('the work failed as well'));
    expect((await call).status).toBe(500);
    expect(app.logged).toEqual([
      expect.stringMatching(/^warn .*The lock on goods:1 was lost/),
      expect.stringMatching(/^error .*the work failed as well/),
    ]);
  });

  it('lets no decorator above @Locked commit', async () => {
    const call = app.call('/committed/1');
    const visit = await app.room.next();
    await takeAway(app, controller.lock, 'deletion');
    visit.leave();
    const { status, body } = await call;
    expect([status, body.code, controller.commits]).toEqual([500, 'LOCK_LOST', []]);
  });

  it("returns the method's result with onLost: 'ignore', after its signal has aborted", async () => {
    const call = app.call('/careless/1');
    const visit = await app.room.next();
    await takeAway(app, controller.lock, 'deletion');
    visit.leave();
    const { status, text } = await call;
    expect([status, text]).toEqual([200, '1']);
  });
});

describe('a lock that is lost while a provider runs', () => {
  let app: TestApp;
  let goods: GoodsService;
  beforeEach(async () => {
    app = await startApp({ providers: [GoodsService] });
    goods = app.nest.get(GoodsService);
  });

  it("throws LockLostError with the method's own error as its cause", async () => {
    const call = goods.buy(1).catch((error: unknown) => error);
    const visit = await app.room.next();
    await takeAway(app, goods.lock, 'deletion');
    const own = new Error('the work failed as well');
    visit.fail(own);
    const error = (await call) as LockLostError;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ code: 'LOCK_LOST', resource: 'goods:1', cause: own });
  });

  it('ends at maxHoldMs although the method hangs, and others get it', async () => {
    const call = goods.hanging(1).catch((error: unknown) => error);
    const visit = await app.room.next();
    await clock().until(app.log.until('lost goods:1'));
    expect(goods.lock?.signal.reason).toBeInstanceOf(LockLostError);
    await app.locks.using('goods:1', () => expect(app.room.inside).toBe(1));
    visit.leave();
    expect(await call).toMatchObject({ code: 'LOCK_LOST', message: expect.stringContaining('maxHoldMs') });
  });
});
