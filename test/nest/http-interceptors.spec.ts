import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  Module,
  type NestInterceptor,
  Param,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR, ModuleRef } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockScope, LockService, MultiLock, RedisLockModule } from 'nestjs-redis-lock';
import { concatMap, Observable } from 'rxjs';
import { deferred } from '../support/async.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, keyOf, startApp, type TestApp } from './support/app.js';
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

/** Calls another method under a lock after the handler. */
@Injectable()
class CallsAnother implements NestInterceptor {
  constructor(private readonly modules: ModuleRef) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const controller = this.modules.get(CallsController, { strict: false });
    return next.handle().pipe(concatMap(() => controller.calledAgain('2')));
  }
}

/** Calls the method of the handler again after it, inside of the request and outside of it. */
@Injectable()
class CallsAgain implements NestInterceptor {
  constructor(
    private readonly locks: LockService,
    private readonly modules: ModuleRef,
  ) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const controller = this.modules.get(CallsController, { strict: false });
    const call = (): Promise<string> => controller.calledAgain('1').catch((error: Error) => error.name);
    const both = async (): Promise<unknown> => [await call(), await this.locks.outside(call), await call()];
    return next.handle().pipe(concatMap(both));
  }
}

function callItself(this: CallsController, _error: Error, id: string): Promise<string> {
  this.calledItself.resolve();
  return this.selfCalling(id);
}

@Controller('commits')
@UseInterceptors(interceptors.ControllerCommit)
class CommitsController {
  constructor(private readonly locks: LockService) {}

  @Get('above/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @Locked('goods:<id>')
  async above(@Param('id') id: string): Promise<string> {
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

  @Get('copying/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @Copying()
  @Locked('goods:<id>')
  async copying(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('scoped-above/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @LockScope()
  @Copying()
  @Locked('goods:<id>')
  async scopedAbove(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('scoped-below/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @Copying()
  @LockScope()
  async scopedBelow(@Param('id') id: string): Promise<string> {
    return this.locks.using(`goods:${id}`, () => id);
  }
}

@Controller('inherited')
class InheritingController extends CommitsController {}

@Controller()
class CallsController {
  readonly signals: AbortSignal[] = [];
  readonly calledItself = deferred();
  private tries = 0;

  constructor(
    private readonly room: Room,
    private readonly control: Control,
  ) {}

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
  @UseInterceptors(interceptors.Again, interceptors.HandlerCommit)
  async again(@Param('id') id: string): Promise<string> {
    return this.succeedSecond(id);
  }

  @Get('several-again/:id')
  @Locked(['goods:<id>', 'goods:2'])
  @UseInterceptors(interceptors.Again, interceptors.HandlerCommit)
  async severalAgain(@Param('id') id: string, @CurrentLock() locks: MultiLock): Promise<string> {
    locks.assertHeld();
    return this.succeedSecond(id);
  }

  /** The decorator calls the method again. */
  @Get('wrapped-again/:id')
  @UseInterceptors(interceptors.HandlerCommit)
  @LockScope()
  @Copying((_self, call) => call().catch(call))
  @Locked('goods:<id>')
  async wrappedAgain(@Param('id') id: string): Promise<string> {
    return this.succeedSecond(id);
  }

  @Get('busy-again/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseInterceptors(interceptors.Again)
  async busyAgain(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('second-call/:id')
  @UseInterceptors(interceptors.SecondCall)
  @Locked('goods:<id>', { waitMs: 0 })
  secondCall(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('second-permit/:id')
  @UseInterceptors(interceptors.SecondCall)
  @Locked('goods:<id>', { permits: 3 })
  secondPermit(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('second-reader/:id')
  @UseInterceptors(interceptors.SecondCall)
  @Locked('goods:<id>', { mode: 'shared' })
  secondReader(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('parallel/:id')
  @Copying((_self, call) => Promise.all([call(), call()]))
  @Locked('goods:<id>', { waitMs: 0 })
  parallel(@Param('id') id: string): Promise<string | undefined> {
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

  @Get('beside/:id')
  @UseInterceptors(LockingInterceptor)
  @Locked('goods:<id>')
  beside(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('another/:id')
  @UseInterceptors(CallsAnother)
  @Locked('goods:<id>')
  async another(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('called-again/:id')
  @UseInterceptors(CallsAgain)
  @Locked('goods:<id>', { waitMs: 0 })
  async calledAgain(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('caught/:id')
  @Locked('goods:<id>')
  @UseInterceptors(interceptors.HandlerCommit, interceptors.CatchErrors)
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

  private succeedSecond(id: string): string {
    this.tries += 1;
    if (this.tries === 1) throw new Error('not yet');
    return id;
  }
}

@Controller('fallback')
@UseInterceptors(interceptors.Fallback)
class FallbackController {
  constructor(private readonly room: Room) {}

  @Get(':id')
  @Locked('goods:<id>', { waitMs: Infinity })
  get(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }
}

async function start(setUp: AppSetUp = {}): Promise<{ app: TestApp; control: Control }> {
  const control = new Control();
  const app = await startApp({
    ...setUp,
    controllers: [CommitsController, InheritingController, CallsController, FallbackController],
    providers: [{ provide: Control, useValue: control }, ...(setUp.providers ?? [])],
  });
  control.key = keyOf(app.prefix, 'goods:1');
  return { app, control };
}

afterEach(closeApps);

describe('an interceptor that commits after the handler', () => {
  const both = ['handler under the lock', 'controller under the lock'];

  it.each(['above', 'below', 'deferred', 'copying', 'scoped-above', 'scoped-below'])(
    'commits under the lock (%s)',
    async (route) => {
      const { app, control } = await start();
      expect((await app.call(`/commits/${route}/1`)).text).toBe('1');
      expect(control.commits).toEqual(both);
      expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
      expect(await app.isLocked('goods:1')).toBe(false);
    },
  );

  it('commits under the lock of an inherited handler', async () => {
    const { app, control } = await start();
    expect((await app.call('/inherited/copying/1')).text).toBe('1');
    expect(control.commits).toEqual(both);
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
    const { app, control } = await start(setUp);
    await app.call('/commits/above/1');
    expect(control.commits.at(-1)).toBe(commit);
  });

  it('commits under the lock as APP_INTERCEPTOR of a module that is imported after ours, not before', async () => {
    const control = new Control();
    const moduleWith = (commit: Type<NestInterceptor>) => {
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
      controllers: [CommitsController],
      providers: [{ provide: Control, useValue: control }],
      lockModules: (prefix) => [
        moduleWith(interceptors.EarlierModuleCommit),
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix }),
        moduleWith(interceptors.LaterModuleCommit),
      ],
    });
    control.key = keyOf(app.prefix, 'goods:1');
    await app.call('/commits/above/1');
    const modules = ['later module under the lock', 'earlier module without the lock'];
    expect(control.commits.toSorted()).toEqual([...both, ...modules].toSorted());
    expect(app.log.count('requested')).toBe(1);
  });
});

describe('an interceptor with a timeout', () => {
  const outside = { providers: [{ provide: APP_INTERCEPTOR, useClass: interceptors.TimeoutInterceptor }] };

  it.each<[string, AppSetUp]>([
    ['inside of ours', {}],
    ['outside of the controller', outside],
  ])('%s, does not release the lock before the method has ended', async (_place, setUp) => {
    const { app, control } = await start(setUp);
    const { signals } = app.nest.get(CallsController);
    const first = app.call('/timeout/1');
    const visit = await app.room.next();
    expect(signals[0]?.aborted).toBe(false);
    control.timeout.resolve();
    expect((await first).status).toBe(408);
    expect(signals[0]?.reason).toMatchObject({ name: 'AbortError' });
    expect(await app.isLocked('goods:1')).toBe(true);
    expect(await app.locks.tryAcquire('goods:1')).toBeNull();
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it.each([
    ['waiting', 408],
    ['fallback', 200],
  ])('ends the wait for the lock: the handler never runs (%s)', async (route, status) => {
    const { app, control } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call(`/${route}/1`);
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
  it.each(['again', 'several-again', 'wrapped-again'])(
    'again after an error makes both calls under one lock (%s)',
    async (route) => {
      const { app, control } = await start();
      expect((await app.call(`/${route}/1`)).text).toBe('1');
      expect(control.commits).toEqual(['handler under the lock']);
      expect([app.log.count('granted goods:1'), app.log.count('released goods:1')]).toEqual([1, 1]);
      expect(await app.isLocked('goods:1')).toBe(false);
    },
  );

  it('again after a LockTimeoutError asks for the lock again', async () => {
    const { app } = await start();
    await app.locks.using('goods:1', async () => {
      expect((await app.call('/busy-again/1')).status).toBe(423);
      await app.log.until('refused goods:1', 2);
    });
    expect((await app.call('/busy-again/1')).text).toBe('1');
  });

  it.each([
    ['second-call', '1'],
    ['second-permit', '1'],
    ['second-reader', '1'],
    ['parallel', '["1","1"]'],
  ])('again during the first call makes the second after the first (%s)', async (route, text) => {
    const { app, control } = await start();
    const call = app.call(`/${route}/1`);
    const first = await app.room.next();
    control.timeout.resolve();
    // By the end of another request, a second call would have begun.
    await app.call('/grab/2');
    expect(app.room.visits).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    expect((await call).text).toBe(text);
    expect([app.room.most, app.log.count('granted goods:1')]).toEqual([1, 1]);
  });

  it('by locks.outside() makes a call of its own, which waits for the lock of the request', async () => {
    const { app } = await start();
    expect((await app.call('/called-again/1')).body).toEqual(['1', 'LockTimeoutError', '1']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('after its response holds a lock for that call', async () => {
    const { app, control } = await start();
    expect((await app.call('/revalidate-later/1')).text).toBe('stale');
    control.timeout.resolve();
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it('by its own onBusy does not wait for itself', async () => {
    const { app } = await start();
    const holder = await app.locks.acquire('goods:1');
    const released = app.nest.get(CallsController).calledItself.promise.then(() => holder.release());
    expect((await app.call('/self-calling/1')).text).toBe('1');
    expect(await released).toBe(true);
  });

  it('and acquires its lock beside and after the method gets it without a request', async () => {
    const { app, control } = await start();
    const call = app.call('/beside/1');
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
    const { app } = await start();
    expect((await app.call('/another/1')).text).toBe('2');
    expect(app.log.lines.slice(-3)).toEqual(['granted goods:2', 'released goods:2', 'released goods:1']);
  });

  it('never acquires no lock', async () => {
    const { app, control } = await start();
    expect((await app.call('/cached/1')).text).toBe('cached');
    expect([control.commits, app.log.lines]).toEqual([[], []]);
  });

  it('and turns its error into a response releases the lock', async () => {
    const { app, control } = await start();
    expect((await app.call('/caught/1')).text).toBe('instead of no 1');
    expect(control.commits).toEqual(['handler under the lock']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });
});
