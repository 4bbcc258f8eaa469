import {
  type CallHandler,
  Controller,
  Get,
  type ExecutionContext,
  Injectable,
  Module,
  type NestInterceptor,
  Param,
  RequestTimeoutException,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, RedisLockModule } from 'nestjs-redis-lock';
import {
  catchError,
  concatMap,
  from,
  map,
  type Observable,
  of,
  race,
  retry,
  type Subscription,
  switchMap,
  throwError,
} from 'rxjs';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, rawRedis, startApp, type TestApp } from './support/app.js';
import { type Deferred, deferred, Room } from './support/room.js';

/** What the interceptors of a test have seen and wait for. */
@Injectable()
class Desk {
  readonly commits: string[] = [];
  readonly patience: Deferred<void> = deferred();
  readonly open: Deferred<void> = deferred();
  revalidation: Subscription | undefined;
  key = '';
}

function commitAs(name: string): new (desk: Desk) => NestInterceptor {
  @Injectable()
  class Commit implements NestInterceptor {
    constructor(private readonly desk: Desk) {}

    intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
      return next.handle().pipe(
        concatMap(async (value: unknown) => {
          const locked = (await rawRedis().exists(this.desk.key)) === 1;
          this.desk.commits.push(`${name} ${locked ? 'under the lock' : 'without the lock'}`);
          return value;
        }),
      );
    }
  }
  return Commit;
}

const CommitOfHandler = commitAs('handler');
const CommitOfController = commitAs('controller');
const CommitOfApp = commitAs('app');
const CommitEarlier = commitAs('earlier module');
const CommitLater = commitAs('later module');

/** Begins later, in another turn of the event loop. */
@Injectable()
class Deferring implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return from(new Promise<void>((resolve) => setImmediate(resolve))).pipe(switchMap(() => next.handle()));
  }
}

/** Gives up when the test says so. */
@Injectable()
class Impatient implements NestInterceptor {
  constructor(private readonly desk: Desk) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const over = from(this.desk.patience.promise).pipe(
      switchMap(() => throwError(() => new RequestTimeoutException())),
    );
    return race(over, next.handle());
  }
}

@Injectable()
class Again implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(1));
  }
}

/** Leaves the first try where it is when the test says so, and begins a second one. */
@Injectable()
class Hasty implements NestInterceptor {
  constructor(private readonly desk: Desk) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const over = from(this.desk.patience.promise).pipe(switchMap(() => next.handle()));
    return race(next.handle(), over);
  }
}

/** Answers at once, and brings its copy up to date behind the answer. */
@Injectable()
class Revalidating implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    next.handle().subscribe();
    return of('stale');
  }
}

/** The same, but long after the answer. */
@Injectable()
class RevalidatingLater implements NestInterceptor {
  constructor(private readonly desk: Desk) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    from(this.desk.patience.promise)
      .pipe(switchMap(() => next.handle()))
      .subscribe();
    return of('stale');
  }
}

/** The same, once the method is under way. */
@Injectable()
class RevalidatingMeanwhile implements NestInterceptor {
  constructor(private readonly desk: Desk) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    this.desk.revalidation = next.handle().subscribe();
    return from(this.desk.patience.promise).pipe(map(() => 'stale'));
  }
}

/** Answers in place of a method that takes too long. */
@Injectable()
class FallingBack implements NestInterceptor {
  constructor(private readonly desk: Desk) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return race(from(this.desk.patience.promise).pipe(map(() => 'instead')), next.handle());
  }
}

@Injectable()
class Cached implements NestInterceptor {
  intercept(): Observable<unknown> {
    return of('cached');
  }
}

/** Turns failures into answers. */
@Injectable()
class Soothing implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(catchError((error: Error) => of(`instead of ${error.message}`)));
  }
}

function insist(this: GoodsController, _error: Error, id: string): string {
  this.insisted.resolve();
  return this.insistent(id);
}

@Controller()
@UseInterceptors(CommitOfController)
class GoodsController {
  readonly signals: AbortSignal[] = [];
  readonly insisted = deferred();
  private tries = 0;

  constructor(
    private readonly room: Room,
    private readonly desk: Desk,
  ) {}

  @Get('committed/:id')
  @UseInterceptors(CommitOfHandler)
  @Locked('goods:<id>')
  committed(@Param('id') id: string): string {
    return id;
  }

  @Get('below/:id')
  @Locked('goods:<id>')
  @UseInterceptors(CommitOfHandler)
  below(@Param('id') id: string): string {
    return id;
  }

  @Get('deferred/:id')
  @Locked('goods:<id>')
  @UseInterceptors(Deferring, CommitOfHandler)
  deferred(@Param('id') id: string): string {
    return id;
  }

  @Get('impatient/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseInterceptors(Impatient)
  impatient(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<string | undefined> {
    this.signals.push(lock.signal);
    return this.room.stay(id);
  }

  @Get('waiting/:id')
  @Locked('goods:<id>', { waitMs: Infinity })
  @UseInterceptors(Impatient)
  waiting(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('grab/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  grab(@Param('id') id: string): string {
    return id;
  }

  @Get('again/:id')
  @Locked('goods:<id>')
  @UseInterceptors(Again)
  again(@Param('id') id: string): string {
    this.tries += 1;
    if (this.tries === 1) throw new Error('not yet');
    return `${id} in ${this.tries} tries`;
  }

  @Get('strictly-again/:id')
  @Locked('goods:<id>', { reentrant: false })
  @UseInterceptors(Again)
  strictlyAgain(@Param('id') id: string): string {
    return this.again(id);
  }

  @Get('busy-again/:id')
  @Locked('goods:<id>', { waitMs: 0 })
  @UseInterceptors(Again)
  busyAgain(@Param('id') id: string): string {
    return id;
  }

  @Get('hasty/:id')
  @Locked('goods:<id>', { reentrant: false })
  @UseInterceptors(Hasty)
  hasty(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidating/:id')
  @Locked('goods:<id>')
  @UseInterceptors(Revalidating)
  revalidating(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidating-meanwhile/:id')
  @Locked('goods:<id>')
  @UseInterceptors(RevalidatingMeanwhile)
  revalidatingMeanwhile(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('revalidating-later/:id')
  @Locked('goods:<id>')
  @UseInterceptors(RevalidatingLater)
  revalidatingLater(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('insistent/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: insist })
  insistent(@Param('id') id: string): string {
    return id;
  }

  @Get('soothed/:id')
  @Locked('goods:<id>')
  @UseInterceptors(Soothing)
  soothed(@Param('id') id: string): string {
    throw new Error(`no ${id}`);
  }

  @Get('cached/:id')
  @Locked('goods:<id>')
  @UseInterceptors(Cached)
  cached(@Param('id') id: string): string {
    this.desk.commits.push('the handler ran');
    return id;
  }
}

const desks = { provide: Desk, useValue: undefined as unknown as Desk };

class PatientController {
  constructor(private readonly room: Room) {}

  @Get(':id')
  @Locked('goods:<id>', { waitMs: Infinity })
  get(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }
}

@Controller('falling-back')
@UseInterceptors(FallingBack)
class FallingBackController extends PatientController {}

@Controller('revalidating-for-a-while')
@UseInterceptors(RevalidatingMeanwhile)
class RevalidatingController extends PatientController {}

async function start(setUp: AppSetUp = {}): Promise<{ app: TestApp; desk: Desk }> {
  const desk = new Desk();
  const app = await startApp({
    ...setUp,
    controllers: [GoodsController, FallingBackController, RevalidatingController],
    providers: [{ ...desks, useValue: desk }, ...(setUp.providers ?? [])],
  });
  desk.key = `{${app.prefix}goods}:1`;
  return { app, desk };
}

afterEach(closeApps);

describe('an interceptor that commits after the handler', () => {
  it.each(['committed', 'below'])('does so under the lock (%s @Locked)', async (route) => {
    const { app, desk } = await start();
    expect((await app.call(`/${route}/1`)).body).toBe('1');
    expect(desk.commits).toEqual(['handler under the lock', 'controller under the lock']);
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it("does so under the lock as the user's global one, by app.useGlobalInterceptors()", async () => {
    const { app, desk } = await start({
      prepare: (nest) => nest.useGlobalInterceptors(new CommitOfApp(nest.get(Desk))),
    });
    await app.call('/committed/1');
    expect(desk.commits).toContain('app under the lock');
  });

  it("does so under the lock as the root module's APP_INTERCEPTOR, which Nest puts before ours", async () => {
    const { app, desk } = await start({ providers: [{ provide: APP_INTERCEPTOR, useClass: CommitOfApp }] });
    await app.call('/committed/1');
    expect(desk.commits.at(-1)).toBe('app under the lock');
  });

  it('does so under the lock as APP_INTERCEPTOR of a module imported earlier or later', async () => {
    const desk = new Desk();
    const moduleWith = (commit: new (desk: Desk) => NestInterceptor) => {
      @Module({
        providers: [
          { provide: Desk, useValue: desk },
          { provide: APP_INTERCEPTOR, useClass: commit },
        ],
      })
      class WithCommit {}
      return WithCommit;
    };
    const app = await startApp({
      controllers: [GoodsController, FallingBackController, RevalidatingController],
      providers: [{ provide: Desk, useValue: desk }],
      lockModules: (prefix) => [
        moduleWith(CommitEarlier),
        RedisLockModule.forRoot({ redis: testRedisUrl(), prefix }),
        moduleWith(CommitLater),
      ],
    });
    desk.key = `{${app.prefix}goods}:1`;
    await app.call('/committed/1');
    expect(desk.commits.toSorted()).toEqual([
      'controller under the lock',
      'earlier module under the lock',
      'handler under the lock',
      'later module under the lock',
    ]);
    expect(app.log.count('requested')).toBe(1);
  });

  it('does so under the lock although an interceptor further in began later', async () => {
    const { app, desk } = await start();
    expect((await app.call('/deferred/1')).body).toBe('1');
    expect(desk.commits).toEqual(['handler under the lock', 'controller under the lock']);
    expect(app.log.count('requested')).toBe(1);
  });
});

describe('an interceptor that gives up after a time', () => {
  const setUps: [string, AppSetUp][] = [
    ['inside of ours', {}],
    ['outside of the controller', { providers: [{ provide: APP_INTERCEPTOR, useClass: Impatient }] }],
  ];

  it.each(setUps)('%s, lets nobody in before the method has ended', async (_place, setUp) => {
    const { app, desk } = await start(setUp);
    const controller = app.nest.get(GoodsController);
    const first = app.call('/impatient/1');
    const visit = await app.room.next();
    expect(controller.signals[0]?.aborted).toBe(false);
    desk.patience.resolve();
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

  it('takes the waiting caller out of the line: its handler never runs', async () => {
    const { app, desk } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/waiting/1');
    await app.log.until('requested goods:1', 2);
    desk.patience.resolve();
    expect((await call).status).toBe(408);
    await app.log.until('refused goods:1');
    await holder.release();
    await app.locks.using('goods:1', () => undefined);
    expect(app.room.visits).toBe(0);
  });
});

describe('an interceptor that calls the handler', () => {
  it.each(['again', 'strictly-again'])('again, has both tries under one lock (%s)', async (route) => {
    const { app, desk } = await start();
    expect((await app.call(`/${route}/1`)).body).toBe('1 in 2 tries');
    expect(desk.commits).toEqual(['controller under the lock']);
    expect(app.log.count('released goods:1')).toBe(1);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('again after a refusal, has the lock for the rest of the call', async () => {
    const { app, desk } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/busy-again/1');
    await app.log.until('refused goods:1', 2);
    expect((await call).status).toBe(423);
    await holder.release();
    expect((await app.call('/busy-again/1')).body).toBe('1');
    expect(desk.commits).toEqual(['controller under the lock']);
  });

  it('again while the first try is inside, has the second one wait for it', async () => {
    const { app, desk } = await start();
    const call = app.call('/hasty/1');
    const first = await app.room.next();
    desk.patience.resolve();
    await desk.patience.promise;
    await app.call('/grab/1');
    expect(app.room.visits).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    expect((await call).body).toBe('1');
    expect([app.room.most, app.log.count('released goods:1')]).toEqual([1, 1]);
  });

  it.each(['revalidating', 'revalidating-later'])('behind its answer, has a lock for that call (%s)', async (route) => {
    const { app, desk } = await start();
    expect((await app.call(`/${route}/1`)).body).toBe('stale');
    desk.patience.resolve();
    const visit = await app.room.next();
    expect(await app.isLocked('goods:1')).toBe(true);
    visit.leave();
    await app.log.until('released goods:1');
    await using again = await app.locks.acquire('goods:1');
    again.assertHeld();
  });

  it('before it has answered, has it go on behind the answer', async () => {
    const { app, desk } = await start();
    const holder = await app.locks.acquire('goods:1');
    const call = app.call('/revalidating-meanwhile/1');
    await app.log.until('requested goods:1', 2);
    desk.patience.resolve();
    expect((await call).body).toBe('stale');
    await holder.release();
    (await app.room.next()).leave();
    await app.log.until('released goods:1', 2);
    expect(app.log.count('refused')).toBe(0);
  });

  it('and answers in its place, has it wait for no lock any more', async () => {
    const { app, desk } = await start();
    await using holder = await app.locks.acquire('goods:1');
    const call = app.call('/falling-back/1');
    await app.log.until('requested goods:1', 2);
    desk.patience.resolve();
    expect((await call).body).toBe('instead');
    await app.log.until('refused goods:1');
    holder.assertHeld();
    expect(app.room.visits).toBe(0);
  });

  it('and lets go of it behind its answer, has it wait for no lock any more', async () => {
    const { app, desk } = await start();
    await using holder = await app.locks.acquire('goods:1');
    const call = app.call('/revalidating-for-a-while/1');
    await app.log.until('requested goods:1', 2);
    desk.patience.resolve();
    expect((await call).body).toBe('stale');
    expect(app.log.count('refused')).toBe(0);
    desk.revalidation?.unsubscribe();
    await app.log.until('refused goods:1');
    holder.assertHeld();
    expect(app.room.visits).toBe(0);
  });

  it('which calls itself when it is refused, is not kept waiting for itself', async () => {
    const { app } = await start();
    const holder = await app.locks.acquire('goods:1');
    app.nest
      .get(GoodsController)
      .insisted.promise.then(() => holder.release())
      .catch(() => undefined);
    expect((await app.call('/insistent/1')).body).toBe('1');
  });

  it('never, has no lock taken', async () => {
    const { app, desk } = await start();
    expect((await app.call('/cached/1')).body).toBe('cached');
    expect(desk.commits).toEqual(['controller without the lock']);
    expect(app.log.lines).toEqual([]);
  });

  it('and answers in place of its failure, still has the lock released', async () => {
    const { app, desk } = await start();
    expect((await app.call('/soothed/1')).body).toBe('instead of no 1');
    expect(desk.commits).toEqual(['controller under the lock']);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it('many times at once, in many requests, keeps their scopes apart', async () => {
    const { app } = await start();
    const ids = Array.from({ length: 30 }, (_, i) => `${i}`);
    const answers = await Promise.all(ids.map((id) => app.call(`/deferred/${id}`)));
    expect(answers.map(({ body }) => body as string)).toEqual(ids);
    expect([app.log.count('granted'), app.log.count('released')]).toEqual([30, 30]);
  });
});
