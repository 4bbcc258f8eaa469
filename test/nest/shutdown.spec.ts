import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller, Get, Injectable, Param } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockClosedError, LockLostError } from 'nestjs-redis-lock';
import { deferred, eventually } from '../support/async.js';
import { testRedisUrl, uniquePrefix } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, PLATFORMS, rawRedis, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

@Controller()
class GoodsController {
  lock: Lock | undefined;

  constructor(private readonly room: Room) {}

  @Get('hang/:id')
  @Locked('goods:<id>', { waitMs: 60_000 })
  hang(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.lock = lock;
    return this.room.stay(id);
  }

  @Get('grab/:id')
  @Locked('goods:<id>', { waitMs: 60_000 })
  async grab(@Param('id') id: string): Promise<string> {
    return id;
  }
}

const start = (shutdownGraceMs: number, { prefix = uniquePrefix(), ...others }: AppSetUp = {}) =>
  startApp({
    prefix,
    controllers: [GoodsController],
    locks: { shutdownGraceMs, redis: namedConnection(prefix) },
    ...others,
  });

function namedConnection(connectionName: string) {
  const { hostname, port, password } = new URL(testRedisUrl());
  return { host: hostname, port: Number(port || 6379), ...(password && { password }), connectionName };
}

async function keysOf(prefix: string): Promise<string[]> {
  const keys = await rawRedis().keys(`*${prefix}*`);
  return keys.filter((key) => !key.endsWith('|fence'));
}

/** Waits until the module has closed its connections, because nobody has used it for a second. */
async function disconnected(prefix: string): Promise<void> {
  await eventually('it is disconnected', async () => !String(await rawRedis().client('LIST')).includes(prefix));
}

/** Closes the application. Resolves when the shutdown has begun. */
async function beginClosing(app: TestApp): Promise<{ readonly closing: Promise<void> }> {
  const closing = app.close();
  await eventually('the shutdown begins', () => app.locks.isShuttingDown);
  return { closing };
}

afterEach(closeApps);

describe('an application that shuts down', () => {
  it.each(PLATFORMS)(
    'serves what waits and what still arrives, until Nest closes its servers (%s)',
    async (platform) => {
      const app = await start(60_000, { platform });
      expect(app.locks.isShuttingDown).toBe(false);
      const call = app.call('/hang/1');
      const visit = await app.room.next();
      const waiting = app.call('/hang/1');
      const { locks } = app;
      const direct = locks.using('goods:1', { waitMs: 60_000 }, () => 'direct');
      await app.log.until('requested goods:1', 3);
      const { closing } = await beginClosing(app);
      expect((await app.call('/grab/3')).status).toBe(200);
      expect(await locks.using('goods:2', () => 'new')).toBe('new');
      visit.leave();
      (await app.room.next()).leave();
      expect([(await call).status, (await waiting).status, await direct]).toEqual([200, 200, 'direct']);
      await closing;
      expect([await keysOf(app.prefix), app.room.visits, app.logged]).toEqual([[], 2, []]);
    },
  );

  it('frees its port at once without a grace period, although a locked handler runs', async () => {
    const app = await start(0);
    const { port } = (app.nest.getHttpServer() as Server).address() as AddressInfo;
    const call = app.call('/hang/1').catch(() => undefined);
    const visit = await app.room.next();
    const { closing } = await beginClosing(app);
    // As the next process of `nest start --watch`, while the handler still runs.
    await eventually('the port is free', async () => {
      const next = createServer();
      const isFree = await new Promise<boolean>((resolve) => {
        next.once('error', () => resolve(false));
        next.listen(port, '127.0.0.1', () => resolve(true));
      });
      next.close();
      return isFree;
    });
    visit.leave();
    await Promise.all([call, closing]);
    expect(await keysOf(app.prefix)).toEqual([]);
  });

  it('serves requests while the hooks of others take their time', async () => {
    const hook = deferred();
    @Injectable()
    class Others {
      beforeApplicationShutdown(): Promise<void> {
        return hook.promise;
      }
    }
    const app = await start(60_000, { providers: [Others] });
    const { closing } = await beginClosing(app);
    const calls = await Promise.all(['1', '1', '2'].map((id) => app.call(`/grab/${id}`)));
    expect(calls.map(({ status }) => status)).toEqual([200, 200, 200]);
    hook.resolve();
    await closing;
  });

  it('serves a request that has waited longer than shutdownGraceMs', async () => {
    const prefix = uniquePrefix();
    const holder = await start(1_000, { prefix });
    const held = holder.call('/hang/1');
    const visit = await holder.room.next();
    const app = await start(0, { prefix });
    const waiting = app.call('/hang/1');
    await app.log.until('requested goods:1');
    const closing = app.close();
    await eventually('the server is closed', () => !(app.nest.getHttpServer() as Server).listening);
    visit.leave();
    (await app.room.next()).leave();
    expect([(await held).status, (await waiting).status]).toEqual([200, 200]);
    await closing;
  });

  it('ends the hold of a handler that hangs after shutdownGraceMs', async () => {
    const app = await start(100);
    const controller = app.nest.get(GoodsController);
    const call = app.call('/hang/1');
    const visit = await app.room.next();
    const aborted = new Promise((resolve) => controller.lock?.signal.addEventListener('abort', resolve));
    const closing = app.close();
    await aborted;
    expect(controller.lock?.signal.reason).toBeInstanceOf(LockLostError);
    expect(controller.lock?.signal.reason).toMatchObject({ cause: expect.any(LockClosedError) });
    while ((await keysOf(app.prefix)).length > 0);
    expect(app.room.inside).toBe(1);
    visit.leave();
    expect((await call).status).toBe(500);
    await closing;
  });

  it('serves callers until nobody has used it for a second, and then refuses them', async () => {
    const app = await start(1_000);
    const { locks, prefix } = app;
    await app.close();
    // As a queue whose workers stop after this module.
    expect(await locks.using('goods:1', () => 'late')).toBe('late');
    await disconnected(prefix);
    await expect(locks.acquire('goods:1')).rejects.toBeInstanceOf(LockClosedError);
  });

  it('leaves no key, connection or timer', async () => {
    const before = timers();
    const app = await start(100);
    await Promise.all(['1', '2', '3'].map((id) => app.call(`/grab/${id}`)));
    await app.locks.acquire('forgotten');
    expect(await rawRedis().client('LIST')).toContain(app.prefix);
    await app.close();
    await disconnected(app.prefix);
    expect(await keysOf(app.prefix)).toEqual([]);
    // ioredis cuts a connection after 50 ms that has not ended by then. Timers of locks would be started again.
    await eventually('its timers are over', () => timers() <= before);
  });
});

describe('an application that has shut down', () => {
  it('closes its connection, although another one of the process still makes calls', async () => {
    const [app, other] = [await start(1_000), await start(1_000)];
    await app.locks.using('goods:1', () => undefined);
    await app.close();
    const isConnected = async () => String(await rawRedis().client('LIST')).includes(app.prefix);
    await eventually('the connection is closed', async () => {
      await other.locks.using('goods:2', () => undefined);
      return !(await isConnected());
    });
    expect(await isConnected()).toBe(false);
  });
});

/** Returns the timers that keep the process alive. */
function timers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}
