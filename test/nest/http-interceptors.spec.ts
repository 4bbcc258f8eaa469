import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  Module,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR, ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { bindLocks, Locked, LockScope, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { concatMap, Observable } from 'rxjs';
import { deferred } from '../support/async.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, keyOf, startApp } from './support/app.js';
import { type GoodsHandler, goodsController, type Work } from './support/goods-controller.js';
import * as interceptors from './support/interceptors.js';
import { Control } from './support/interceptors.js';
import { Room } from './support/room.js';
import { Copying } from './support/wrappers.js';

/** Acquires the handler's lock after the method, and beside it when the test says so. */
@Injectable()
class LockingInterceptor implements NestInterceptor {
  constructor(
    private readonly locks: LockService,
    private readonly control: Control,
    private readonly room: Room,
  ) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const options = { waitMs: 0 };
    const beside = () =>
      this.locks.using('goods:1', options, () =>
        this.locks.using(['goods:1', 'goods:2'], options, () => this.room.stay('beside')),
      );
    this.control.timeout.promise.then(beside).catch((error: unknown) => this.room.stay(error));
    return next.handle().pipe(concatMap((value) => this.locks.using('goods:1', options, () => value)));
  }
}

type Buy = (id: string) => Promise<unknown>;

/** Returns an interceptor that does this after the handler. It may call the method of the handler. */
function afterwards(work: (buy: Buy, locks: LockService) => Promise<unknown>): Type<NestInterceptor> {
  @Injectable()
  class Afterwards implements NestInterceptor {
    constructor(
      private readonly locks: LockService,
      private readonly modules: ModuleRef,
    ) {}

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const controller = this.modules.get<{ buy: Buy }>(context.getClass(), { strict: false });
      return next.handle().pipe(concatMap(() => work((id) => controller.buy(id), this.locks)));
    }
  }
  return Afterwards;
}

const LOCKED = Locked('goods:<id>');
const GRABBED = Locked('goods:<id>', { waitMs: 0 });
const COMMIT = UseInterceptors(interceptors.HandlerCommit);
const TIMEOUT = UseInterceptors(interceptors.TimeoutInterceptor);
const SECOND_CALL = UseInterceptors(interceptors.SecondCall);

const leave = (_handler: GoodsHandler, id: string): string => id;
const succeedSecond = ({ calls }: GoodsHandler, id: string): string => {
  if (calls === 1) throw new Error('not yet');
  return id;
};

async function start(controller: Type, setUp: AppSetUp = {}) {
  const control = new Control();
  const providers = [{ provide: Control, useValue: control }, ...(setUp.providers ?? [])];
  const app = await startApp({ ...setUp, controllers: [controller], providers });
  control.key = keyOf(app.prefix, 'goods:1');
  return { app, control };
}

afterEach(closeApps);

describe('an interceptor that commits after the handler', () => {
  const both = ['handler under the lock', 'controller under the lock'];

  /** Returns a controller with such interceptors on the class and, by one of the decorators, on the handler. */
  const commits = (decorators: readonly unknown[], work: Work = leave): Type => {
    const controller = goodsController(decorators, work);
    UseInterceptors(interceptors.ControllerCommit)(controller);
    return controller;
  };
  const useLock = ({ locks }: GoodsHandler, id: string) => locks.using(`goods:${id}`, () => id);

  @Controller('goods')
  class Inheriting extends commits([COMMIT, Copying(), LOCKED]) {}

  it.each<[string, Type]>([
    ['above', commits([COMMIT, LOCKED])],
    ['below', commits([LOCKED, COMMIT])],
    ['deferred', commits([LOCKED, UseInterceptors(interceptors.SubscribeLate, interceptors.HandlerCommit)])],
    ['above a decorator that copies', commits([COMMIT, Copying(), LOCKED])],
    ['above a scope', commits([COMMIT, LockScope(), Copying(), LOCKED])],
    ['of a scope only', commits([COMMIT, Copying(), LockScope()], useLock)],
    ['inherited', Inheriting],
  ])('commits under the lock (%s)', async (_where, controller) => {
    const { app, control } = await start(controller);
    expect((await app.call('/goods/1')).text).toBe('1');
    expect(control.commits).toEqual(both);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it.each<[string, AppSetUp, string]>([
    [
      'by app.useGlobalInterceptors()',
      { prepare: (nest) => nest.useGlobalInterceptors(new interceptors.AppCommit(nest.get(Control))) },
      'app under the lock',
    ],
    [
      "as the root module's APP_INTERCEPTOR",
      { providers: [{ provide: APP_INTERCEPTOR, useClass: interceptors.AppCommit }] },
      'app without the lock',
    ],
  ])('commits with or without the lock if registered %s', async (_way, setUp, commit) => {
    const { app, control } = await start(commits([COMMIT, LOCKED]), setUp);
    await app.call('/goods/1');
    expect(control.commits.at(-1)).toBe(commit);
  });

  it('commits under the lock as APP_INTERCEPTOR of a module that is imported after ours, not before', async () => {
    const shared = new Control();
    const moduleWith = (useClass: Type<NestInterceptor>) => {
      const providers = [
        { provide: Control, useValue: shared },
        { provide: APP_INTERCEPTOR, useClass },
      ];
      @Module({ providers })
      class WithCommit {}
      return WithCommit;
    };
    const { app, control } = await start(commits([COMMIT, LOCKED]), {
      lockModules: (prefix) => [
        moduleWith(interceptors.EarlierModuleCommit),
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix }),
        moduleWith(interceptors.LaterModuleCommit),
      ],
    });
    shared.key = control.key;
    await app.call('/goods/1');
    const modules = ['later module under the lock', 'earlier module without the lock'];
    expect([...control.commits, ...shared.commits].toSorted()).toEqual([...both, ...modules].toSorted());
    expect(app.log.count('requested')).toBe(1);
  });
});

describe('an interceptor with a timeout', () => {
  const outside = { providers: [{ provide: APP_INTERCEPTOR, useClass: interceptors.TimeoutInterceptor }] };

  it.each<[string, AppSetUp]>([
    ['inside of ours', {}],
    ['outside of the controller', outside],
  ])('%s, does not release the lock before the method has ended', async (_place, setUp) => {
    const controller = goodsController([GRABBED, TIMEOUT]);
    const { app, control } = await start(controller, setUp);
    const first = app.call('/goods/1');
    const visit = await app.room.next();
    const signal = app.nest.get<GoodsHandler>(controller).lock?.signal;
    expect(signal?.aborted).toBe(false);
    control.timeout.resolve();
    expect((await first).status).toBe(408);
    expect(signal?.reason).toMatchObject({ name: 'AbortError' });
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(await app.locks.tryAcquire('goods:1')).toBeNull();
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it.each<[string, Type<NestInterceptor>, status: number]>([
    ['an error', interceptors.TimeoutInterceptor, 408],
    ['a response', interceptors.Fallback, 200],
  ])('ends the wait for the lock: the handler never runs (%s)', async (_how, interceptor, status) => {
    const controller = goodsController([Locked('goods:<id>', { waitMs: Infinity })]);
    UseInterceptors(interceptor)(controller);
    const { app, control } = await start(controller);
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/goods/1');
    await app.log.until('requested goods:1', 2);
    control.timeout.resolve();
    expect((await call).status).toBe(status);
    await app.log.until('refused goods:1');
    await holder.release();
    await app.locks.using('goods:1', () => undefined);
    expect(app.room.visits).toBe(0);
  });
});

describe('an interceptor or a decorator that calls the handler', () => {
  const again = UseInterceptors(interceptors.Again, interceptors.HandlerCommit);
  const callAgain = Copying((_self, call) => call().catch(call));

  it.each<[string, unknown[]]>([
    ['one lock', [LOCKED, again]],
    ['several locks', [Locked(['goods:<id>', 'goods:2']), again]],
    ['a decorator in a scope', [COMMIT, LockScope(), callAgain, LOCKED]],
  ])('again after an error makes both calls under one lock (%s)', async (_what, decorators) => {
    const { app, control } = await start(goodsController(decorators, succeedSecond));
    expect((await app.call('/goods/1')).text).toBe('1');
    expect(control.commits).toEqual(['handler under the lock']);
    expect([app.log.count('granted goods:1'), app.log.count('released goods:1')]).toEqual([1, 1]);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('again after a LockTimeoutError asks for the lock again', async () => {
    const { app } = await start(goodsController([GRABBED, UseInterceptors(interceptors.Again)], leave));
    await app.locks.using('goods:1', async () => {
      expect((await app.call('/goods/1')).status).toBe(423);
      await app.log.until('refused goods:1', 2);
    });
    expect((await app.call('/goods/1')).text).toBe('1');
  });

  it.each<[string, unknown[], text: string]>([
    ['exclusive', [SECOND_CALL, GRABBED], '1'],
    ['permits', [SECOND_CALL, Locked('goods:<id>', { permits: 3 })], '1'],
    ['shared', [SECOND_CALL, Locked('goods:<id>', { mode: 'shared' })], '1'],
    ['a decorator', [Copying((_self, call) => Promise.all([call(), call()])), GRABBED], '["1","1"]'],
  ])('again during the first call makes the second after the first (%s)', async (_what, decorators, text) => {
    const { app, control } = await start(goodsController(decorators));
    const call = app.call('/goods/1');
    const first = await app.room.next();
    control.timeout.resolve();
    // By the end of another request under a lock, a second call would have begun.
    await app.locks.using('goods:2', () => app.call('/nothing'));
    expect(app.room.visits).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    expect((await call).text).toBe(text);
    expect([app.room.most, app.log.count('granted goods:1')]).toEqual([1, 1]);
  });

  it('by locks.outside() makes a call of its own, which waits for the lock of the request', async () => {
    const callsAgain = afterwards(async (buy, locks) => {
      const call = () => buy('1').catch((error: Error) => error.name);
      return [await call(), await locks.outside(call), await call()];
    });
    const { app } = await start(goodsController([UseInterceptors(callsAgain), GRABBED], leave));
    expect((await app.call('/goods/1')).body).toEqual(['1', 'LockTimeoutError', '1']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('after its response holds a lock for that call', async () => {
    const { app, control } = await start(goodsController([LOCKED, UseInterceptors(interceptors.RevalidateLater)]));
    expect((await app.call('/goods/1')).text).toBe('stale');
    control.timeout.resolve();
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    await app.log.until('released goods:1');
    await using next = await app.locks.acquire('goods:1');
    next.assertHeld();
  });

  it('by its own onBusy does not wait for itself', async () => {
    const calledItself = deferred();
    function onBusy(this: { buy: Buy }, _error: Error, id: string): Promise<unknown> {
      calledItself.resolve();
      return this.buy(id);
    }
    const { app } = await start(goodsController([Locked('goods:<id>', { waitMs: 0, onBusy })], leave));
    const holder = await app.locks.acquire('goods:1');
    const released = calledItself.promise.then(() => holder.release());
    expect((await app.call('/goods/1')).text).toBe('1');
    expect(await released).toBe(true);
  });

  it('and acquires its lock beside and after the method gets it without a request', async () => {
    const { app, control } = await start(goodsController([UseInterceptors(LockingInterceptor), LOCKED]));
    const call = app.call('/goods/1');
    const method = await app.room.next();
    control.timeout.resolve();
    const beside = await app.room.next();
    expect(beside.of).toBe('beside');
    beside.leave();
    method.leave();
    expect((await call).text).toBe('1');
    // What runs beside the method may end after the response.
    await app.log.until('released goods:1');
    expect(app.log.count('requested goods:1')).toBe(1);
  });

  it('and calls another method under a lock releases the lock of that method at its end', async () => {
    class Another {
      @LOCKED
      async sell(id: string): Promise<string> {
        return id;
      }
    }
    const callsAnother = afterwards((_buy, locks) => bindLocks(new Another(), locks).sell('2'));
    const { app } = await start(goodsController([UseInterceptors(callsAnother), LOCKED], leave));
    expect((await app.call('/goods/1')).text).toBe('2');
    expect(app.log.lines.slice(-3)).toEqual(['granted goods:2', 'released goods:2', 'released goods:1']);
  });

  it('never acquires no lock', async () => {
    const { app } = await start(goodsController([LOCKED, UseInterceptors(interceptors.Cached)]));
    expect((await app.call('/goods/1')).text).toBe('cached');
    expect([app.room.visits, app.log.lines]).toEqual([0, []]);
  });

  it('and turns its error into a response releases the lock', async () => {
    const caught = UseInterceptors(interceptors.HandlerCommit, interceptors.CatchErrors);
    const { app, control } = await start(goodsController([LOCKED, caught], succeedSecond));
    expect((await app.call('/goods/1')).text).toBe('instead of not yet');
    expect(control.commits).toEqual(['handler under the lock']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });
});
