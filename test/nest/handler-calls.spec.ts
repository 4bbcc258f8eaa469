import { Readable } from 'node:stream';
import {
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  type NestInterceptor,
  Param,
  StreamableFile,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, Lock, Locked, LockLostError, LockService, MultiLock } from 'nestjs-redis-lock';
import { concatMap, from, lastValueFrom, Observable } from 'rxjs';
import { deferred } from '../support/async.js';
import { closeApps, startApp, type TestApp } from './support/app.js';
import { Control, SecondCall, TimeoutInterceptor } from './support/interceptors.js';
import { RawRequest } from './support/raw-request.js';
import { Room } from './support/room.js';

/** Calls the handler's method itself, twice at once. */
@Injectable()
class CallingGuard implements CanActivate {
  constructor(private readonly modules: ModuleRef) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { params } = context.switchToHttp().getRequest<{ params: { id: string } }>();
    const controller = this.modules.get(GoodsController, { strict: false });
    const results = await Promise.all([controller.guarded(params.id), controller.guarded(params.id)]);
    return results.every((result) => result === params.id);
  }
}

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

/** Calls the handler when the test says so. A timeout does not stop it. */
@Injectable()
class LateCall implements NestInterceptor {
  constructor(private readonly room: Room) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const call = async (): Promise<void> => {
      await this.room.stay('before the handler');
      await lastValueFrom(next.handle());
    };
    return from(call().catch((error: unknown) => this.room.stay(error)));
  }
}

@Injectable()
class GoodsService {
  @Locked('goods:<id>', { waitMs: 0 })
  async buy(id: string, @CurrentLock() lock?: Lock): Promise<string> {
    lock?.assertHeld();
    return id;
  }
}

@Controller()
class GoodsController {
  readonly held = deferred<Lock | MultiLock>();
  private left = false;

  constructor(
    private readonly room: Room,
    private readonly goods: GoodsService,
  ) {}

  @Get('guarded/:id')
  @UseGuards(CallingGuard)
  @Locked('goods:<id>')
  async guarded(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('endless/:id')
  @UseInterceptors(TimeoutInterceptor)
  @Locked('goods:<id>')
  endless(@Param('id') _id: string, @CurrentLock() lock: Lock): Observable<string> {
    return new Observable((subscriber) => {
      this.held.resolve(lock);
      return () => subscriber.complete();
    });
  }

  @Get('nested/:id')
  @Locked('goods:<id>')
  async nested(@Param('id') id: string): Promise<string> {
    return this.goods.buy(id);
  }

  @Get('recursive/:id')
  @Locked('goods:<id>')
  async recursive(@Param('id') id: string): Promise<string> {
    if (this.left) return id;
    this.left = true;
    await this.recursive('2');
    return (await this.room.stay(id)) as string;
  }

  @Get('second-call/:id')
  @UseInterceptors(SecondCall)
  @Locked('goods:<id>', { waitMs: 0 })
  secondCall(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('second-permit/:id')
  @UseInterceptors(SecondCall)
  @Locked('goods:<id>', { permits: 3 })
  secondPermit(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('second-reader/:id')
  @UseInterceptors(SecondCall)
  @Locked('goods:<id>', { mode: 'shared' })
  secondReader(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('late/:id')
  @UseInterceptors(TimeoutInterceptor, LateCall)
  @Locked('goods:<id>')
  late(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('beside/:id')
  @UseInterceptors(LockingInterceptor)
  @Locked('goods:<id>')
  beside(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }

  @Get('file/:id')
  @Locked('goods:<id>')
  async file(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<StreamableFile> {
    return this.send(id, lock);
  }

  @Get('file-of-two/:id')
  @Locked(['goods:<id>', 'goods:2'])
  async fileOfTwo(@Param('id') id: string, @CurrentLock() locks: MultiLock): Promise<StreamableFile> {
    return this.send(id, locks);
  }

  private send(id: string, lock: Lock | MultiLock): StreamableFile {
    const { room, held } = this;
    const lines = async function* () {
      yield 'first';
      held.resolve(lock);
      await room.stay(id);
      lock.assertHeld();
      yield 'last';
    };
    return new StreamableFile(Readable.from(lines()));
  }
}

let app: TestApp;
let controller: GoodsController;
let control: Control;
beforeEach(async () => {
  app = await startApp({ controllers: [GoodsController], providers: [Control, GoodsService] });
  controller = app.nest.get(GoodsController);
  control = app.nest.get(Control);
});
afterEach(closeApps);

describe("a guard that calls the handler's method", () => {
  it('takes locks of its own, which end before the one of the handler', async () => {
    expect((await app.call('/guarded/1')).text).toBe('1');
    expect(app.log.count('granted')).toBe(3);
    expect(app.log.lines.slice(-3)).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });
});

describe('a method that never ends', () => {
  it('and returns an Observable has its lock until a timeout', async () => {
    const call = app.call('/endless/1');
    const lock = await controller.held.promise;
    control.timeout.resolve();
    expect((await call).status).toBe(408);
    expect(lock.signal.reason).toHaveProperty('name', 'AbortError');
    await app.log.until('released goods:1');
    expect(await app.isLocked('goods:1')).toBe(false);
  });
});

describe('a handler that calls', () => {
  it('a service with the same lock gets it without a request', async () => {
    expect((await app.call('/nested/1')).text).toBe('1');
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
  });

  it('itself releases the lock of the inner call at the end of that call', async () => {
    const call = app.call('/recursive/1');
    const visit = await app.room.next();
    expect([await app.isLocked('goods:1'), await app.isLocked('goods:2')]).toEqual([true, false]);
    visit.leave();
    expect((await call).text).toBe('1');
  });
});

describe('a second call of a request, during the first', () => {
  it.each(['second-call', 'second-permit', 'second-reader'])('runs after the first: %s', async (path) => {
    const call = app.call(`/${path}/1`);
    const first = await app.room.next();
    control.timeout.resolve();
    await app.call('/nested/2');
    expect(app.room.visits).toBe(1);
    first.leave();
    (await app.room.next()).leave();
    expect((await call).text).toBe('1');
    expect([app.room.most, app.log.count('granted goods:1')]).toEqual([1, 1]);
  });
});

describe('an interceptor', () => {
  it('that calls the handler after a timeout gets an AbortError, and the method is not called', async () => {
    const call = app.call('/late/1');
    const interceptor = await app.room.next();
    control.timeout.resolve();
    expect((await call).status).toBe(408);
    interceptor.leave();
    const outcome = await app.room.next();
    outcome.leave();
    expect(outcome.of).toHaveProperty('name', 'AbortError');
    expect(app.log.count('granted')).toBe(0);
  });

  it("gets the handler's lock beside and after the method without a request", async () => {
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
});

describe.each(['file', 'file-of-two'])('a file that a handler returns (%s)', (path) => {
  it('may use the lock until it is sent', async () => {
    const request = new RawRequest(`${app.url}/${path}/1`);
    const visit = await app.room.next();
    expect((await controller.held.promise).expiresInMs).toBeGreaterThan(0);
    visit.leave();
    await request.readUntil('last');
    await app.log.until('released goods:1');
  });

  it('releases the lock after a disconnect', async () => {
    const request = new RawRequest(`${app.url}/${path}/1`);
    await request.readUntil('first');
    const lock = await controller.held.promise;
    request.hangUp();
    (await app.room.next()).leave();
    await app.log.until('released goods:1');
    expect(() => lock.assertHeld()).toThrow(LockLostError);
  });
});
