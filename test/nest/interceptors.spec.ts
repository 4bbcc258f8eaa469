import { Controller, Get, Module, type NestInterceptor, Param, UseInterceptors } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, RedisLockModule } from 'nestjs-redis-lock';
import { deferred } from '../support/async.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, startApp, type TestApp } from './support/app.js';
import * as interceptors from './support/interceptors.js';
import { Control } from './support/interceptors.js';
import { Room } from './support/room.js';

function callItself(this: GoodsController, _error: Error, id: string): Promise<string> {
  this.calledItself.resolve();
  return this.selfCalling(id);
}

@Controller()
@UseInterceptors(interceptors.ControllerCommit)
class GoodsController {
  readonly signals: AbortSignal[] = [];
  readonly calledItself = deferred();
  private tries = 0;

  constructor(
    private readonly room: Room,
    private readonly control: Control,
  ) {}

  @Get('committed/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @Locked('goods:<id>')
  async committed(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('below/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.HandlerCommit)
  async below(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('deferred/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.SubscribeLate, interceptors.HandlerCommit)
  async deferred(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('timeout/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseInterceptors(interceptors.TimeoutInterceptor)
  timeout(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.signals.push(lock.signal);
    return this.room.stay(id);
  }

  @Get('waiting/:id')
  @Locked('goods:<id>', { waitMs: Infinity })
  @UseInterceptors(interceptors.TimeoutInterceptor)
  waiting(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('grab/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  async grab(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('again/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.Again)
  async again(@Param('id') id: string): Promise<string> {
    this.tries += 1;
    if (this.tries === 1) throw new Error('not yet');
    return `${id} in ${this.tries} tries`;
  }

  @Get('busy-again/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseInterceptors(interceptors.Again)
  async busyAgain(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('second-call/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.SecondCall)
  secondCall(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidate/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.Revalidate)
  revalidate(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidate-during-call/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.RevalidateDuringCall)
  revalidateDuringCall(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidate-later/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.RevalidateLater)
  revalidateLater(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('self-calling/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: callItself })
  async selfCalling(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('caught/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.CatchErrors)
  async caught(@Param('id') id: string): Promise<string> {
    throw new Error(`no ${id}`);
  }

  @Get('cached/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.Cached)
  async cached(@Param('id') id: string): Promise<string> {
    this.control.commits.push('the handler ran');
    return id;
  }
}

const controlProvider = { provide: Control, useValue: undefined as unknown as Control };

class WaitingController {
  constructor(private readonly room: Room) {}

  @Get(':id')
  @Locked('goods:<id>', { waitMs: Infinity })
  get(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }
}

@Controller('fallback')
@UseInterceptors(interceptors.Fallback)
class FallbackController extends WaitingController {}

@Controller('revalidate-unsubscribed')
@UseInterceptors(interceptors.RevalidateDuringCall)
class RevalidateController extends WaitingController {}

async function start(setUp: AppSetUp = {}): Promise<{ app: TestApp; control: Control }> {
  const control = new Control();
  const app = await startApp({
    ...setUp,
    controllers: [GoodsController, FallbackController, RevalidateController],
    providers: [{ ...controlProvider, useValue: control }, ...(setUp.providers ?? [])],
  });
  control.key = `{${app.prefix}goods}:1`;
  return { app, control };
}

afterEach(closeApps);

describe('an interceptor that commits after the handler', () => {
  it.each(['committed', 'below'])('commits under the lock (%s @Locked)', async (route) => {
    const { app, control } = await start();
    expect((await app.call(`/${route}/1`)).body).toBe('1');
    expect(control.commits).toEqual(['handler under the lock', 'controller under the lock']);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('commits under the lock if registered by app.useGlobalInterceptors()', async () => {
    const { app, control } = await start({
      prepare: (nest) => nest.useGlobalInterceptors(new interceptors.AppCommit(nest.get(Control))),
    });
    await app.call('/committed/1');
    expect(control.commits).toContain('app under the lock');
  });

  it("commits under the lock as the root module's APP_INTERCEPTOR", async () => {
    const { app, control } = await start({
      providers: [{ provide: APP_INTERCEPTOR, useClass: interceptors.AppCommit }],
    });
    await app.call('/committed/1');
    expect(control.commits.at(-1)).toBe('app under the lock');
  });

  it('commits under the lock as APP_INTERCEPTOR of a module imported before or after', async () => {
    const control = new Control();
    const moduleWith = (commit: new (control: Control) => NestInterceptor) => {
      @Module({
        providers: [
          { provide: Control, useValue: control },
          { provide: APP_INTERCEPTOR, useClass: commit },
        ],
      })
      class WithCommit {}
      return WithCommit;
    };
    const app = await startApp({
      controllers: [GoodsController, FallbackController, RevalidateController],
      providers: [{ provide: Control, useValue: control }],
      lockModules: (prefix) => [
        moduleWith(interceptors.EarlierModuleCommit),
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix }),
        moduleWith(interceptors.LaterModuleCommit),
      ],
    });
    control.key = `{${app.prefix}goods}:1`;
    await app.call('/committed/1');
    expect(control.commits.toSorted()).toEqual([
      'controller under the lock',
      'earlier module under the lock',
      'handler under the lock',
      'later module under the lock',
    ]);
    expect(app.log.count('requested')).toBe(1);
  });

  it('commits under the lock if an inner interceptor subscribes late', async () => {
    const { app, control } = await start();
    expect((await app.call('/deferred/1')).body).toBe('1');
    expect(control.commits).toEqual(['handler under the lock', 'controller under the lock']);
    expect(app.log.count('requested')).toBe(1);
  });
});

describe('an interceptor with a timeout', () => {
  const setUps: [string, AppSetUp][] = [
    ['inside of ours', {}],
    [
      'outside of the controller',
      { providers: [{ provide: APP_INTERCEPTOR, useClass: interceptors.TimeoutInterceptor }] },
    ],
  ];

  it.each(setUps)('%s, does not release the lock before the method has ended', async (_place, setUp) => {
    const { app, control } = await start(setUp);
    const controller = app.nest.get(GoodsController);
    const first = app.call('/timeout/1');
    const visit = await app.room.next();
    expect(controller.signals[0]?.aborted).toBe(false);
    control.timeout.resolve();
    expect((await first).status).toBe(408);
    expect(app.room.inside).toBe(1);
    expect(controller.signals[0]?.reason).toMatchObject({ name: 'AbortError' });
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(await app.locks.tryAcquire('goods:1')).toBeNull();
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it('ends the wait for the lock: the handler never runs', async () => {
    const { app, control } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/waiting/1');
    await app.log.until('requested goods:1', 2);
    control.timeout.resolve();
    expect((await call).status).toBe(408);
    await app.log.until('refused goods:1');
    await holder.release();
    await app.locks.using('goods:1', () => undefined);
    expect(app.room.visits).toBe(0);
  });
});

describe('an interceptor that calls the handler', () => {
  it('twice runs both calls under one lock', async () => {
    const { app, control } = await start();
    expect((await app.call('/again/1')).body).toBe('1 in 2 tries');
    expect(control.commits).toEqual(['controller under the lock']);
    expect(app.log.count('released goods:1')).toBe(1);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('again after a LockTimeoutError holds the lock until the end of the request', async () => {
    const { app, control } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/busy-again/1');
    await app.log.until('refused goods:1', 2);
    expect((await call).status).toBe(423);
    await holder.release();
    expect((await app.call('/busy-again/1')).body).toBe('1');
    expect(control.commits).toEqual(['controller under the lock']);
  });

  it('again during the first call runs the second after the first', async () => {
    const { app, control } = await start();
    const call = app.call('/second-call/1');
    const first = await app.room.next();
    control.timeout.resolve();
    await control.timeout.promise;
    await app.call('/grab/1');
    expect(app.room.visits).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    expect((await call).body).toBe('1');
    expect([app.room.most, app.log.count('released goods:1')]).toEqual([1, 1]);
  });

  it.each(['revalidate', 'revalidate-later'])('after its response holds a lock for that call (%s)', async (route) => {
    const { app, control } = await start();
    expect((await app.call(`/${route}/1`)).body).toBe('stale');
    control.timeout.resolve();
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it('before its response lets the method go on after the response', async () => {
    const { app, control } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/revalidate-during-call/1');
    await app.log.until('requested goods:1', 2);
    control.timeout.resolve();
    expect((await call).body).toBe('stale');
    await holder.release();
    (await app.room.next()).leave();
    await app.log.until('released goods:1', 2);
    expect(app.log.count('refused')).toBe(0);
  });

  it('and responds in its place ends the wait for the lock', async () => {
    const { app, control } = await start();
    await using holder = await app.locks.acquire('goods:1');
    const call = app.call('/fallback/1');
    await app.log.until('requested goods:1', 2);
    control.timeout.resolve();
    expect((await call).body).toBe('instead');
    await app.log.until('refused goods:1');
    holder.assertHeld();
    expect(app.room.visits).toBe(0);
  });

  it('and unsubscribes after its response ends the wait for the lock', async () => {
    const { app, control } = await start();
    await using holder = await app.locks.acquire('goods:1');
    const call = app.call('/revalidate-unsubscribed/1');
    await app.log.until('requested goods:1', 2);
    control.timeout.resolve();
    expect((await call).body).toBe('stale');
    expect(app.log.count('refused')).toBe(0);
    control.revalidation?.unsubscribe();
    await app.log.until('refused goods:1');
    holder.assertHeld();
    expect(app.room.visits).toBe(0);
  });

  it('that calls itself does not wait for its own lock', async () => {
    const { app } = await start();
    const holder = await app.locks.acquire('goods:1');
    app.nest
      .get(GoodsController)
      .calledItself.promise.then(() => holder.release())
      .catch(() => undefined);
    expect((await app.call('/self-calling/1')).body).toBe('1');
  });

  it('never acquires no lock', async () => {
    const { app, control } = await start();
    expect((await app.call('/cached/1')).body).toBe('cached');
    expect(control.commits).toEqual(['controller without the lock']);
    expect(app.log.lines).toEqual([]);
  });

  it('and turns its error into a response releases the lock', async () => {
    const { app, control } = await start();
    expect((await app.call('/caught/1')).body).toBe('instead of no 1');
    expect(control.commits).toEqual(['controller under the lock']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('in many concurrent requests keeps their scopes apart', async () => {
    const { app } = await start();
    const ids = Array.from({ length: 30 }, (_, i) => `${i}`);
    const responses = await Promise.all(ids.map((id) => app.call(`/deferred/${id}`)));
    expect(responses.map(({ body }) => body as string)).toEqual(ids);
    expect([app.log.count('granted'), app.log.count('released')]).toEqual([30, 30]);
  });
});
