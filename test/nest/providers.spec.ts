import { Controller, Get, Inject, Injectable, Param, Scope } from '@nestjs/common';
import { ContextIdFactory, REQUEST } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CurrentLock, type Lock, Locked, LockService } from 'nestjs-redis-lock';
import { closeApps, startApp } from './support/app.js';
import { Room } from './support/room.js';

@Injectable()
class GoodsService {
  constructor(protected readonly room: Room) {}

  @Locked('goods:<id>')
  async buy(id: number): Promise<number | undefined> {
    return this.room.stay(id);
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequestService extends GoodsService {
  constructor(
    room: Room,
    @Inject(REQUEST) readonly request: unknown,
  ) {
    super(room);
  }
}

@Injectable({ scope: Scope.TRANSIENT })
class TransientService extends GoodsService {}

/** Overrides a locked method without `@Locked` and calls it. */
@Injectable()
class CallingSuper extends GoodsService {
  override async buy(id: number): Promise<number | undefined> {
    return ((await super.buy(id)) ?? 0) * 10;
  }
}

/** The override and the base method lock the same goods. */
@Injectable()
class LockedTwice extends GoodsService {
  @Locked('goods:<id>')
  override async buy(id: number): Promise<number | undefined> {
    return super.buy(id);
  }
}

@Injectable()
class InnerService {
  @Locked('goods:<id>')
  async token(id: number, @CurrentLock() lock?: Lock): Promise<number | undefined> {
    await Promise.resolve(id);
    return lock?.fencingToken;
  }
}

@Injectable()
class NestingService {
  constructor(
    private readonly locks: LockService,
    private readonly inner: InnerService,
  ) {}

  @Locked('goods:<id>')
  async tokens(id: number, @CurrentLock() lock?: Lock): Promise<(number | undefined)[]> {
    const own = this.locks.current()?.fencingToken;
    const used = await this.locks.using(`goods:${id}`, (nested) => nested.fencingToken);
    return [lock?.fencingToken, own, used, await this.inner.token(id), this.locks.current(`goods:${id}`)?.fencingToken];
  }
}

@Controller()
class GoodsController {
  constructor(
    private readonly goods: GoodsService,
    private readonly perRequest: PerRequestService,
  ) {}

  @Get('by-service/:id')
  byService(@Param('id') id: string): Promise<number | undefined> {
    return this.goods.buy(Number(id));
  }

  @Get('by-request/:id')
  byRequest(@Param('id') id: string): Promise<number | undefined> {
    return this.perRequest.buy(Number(id));
  }

  @Get('nested/:id')
  @Locked('goods:<id>')
  nested(@Param('id') id: string): Promise<number | undefined> {
    return this.goods.buy(Number(id));
  }
}

/** Nest creates a request-scoped controller for each request. */
@Controller({ scope: Scope.REQUEST })
class ScopedController {
  constructor(private readonly room: Room) {}

  @Get('scoped/:id')
  @Locked('goods:<id>')
  scoped(@Param('id') id: string): Promise<string | undefined> {
    return this.room.stay(id);
  }
}

const services = [GoodsService, PerRequestService, TransientService, CallingSuper, LockedTwice];
const providers = [...services, NestingService, InnerService];
const start = () => startApp({ providers, controllers: [GoodsController, ScopedController] });

afterEach(closeApps);

describe('a locked method of a provider', () => {
  it.each([
    ['singleton', GoodsService],
    ['transient', TransientService],
    ['request-scoped', PerRequestService],
    ['overriding and calling super', CallingSuper],
    ['locked twice over, calling super', LockedTwice],
  ])('excludes its calls on another instance of the class (%s)', async (_kind, type) => {
    const app = await start();
    const one = await app.nest.resolve(type, ContextIdFactory.create()).catch(() => app.nest.get(type));
    const other = await app.nest.resolve(type, ContextIdFactory.create()).catch(() => app.nest.get(type));
    const calls = [one.buy(1), other.buy(1)];
    const visit = await app.room.next();
    await app.log.until('requested goods:1', 2);
    expect(app.room.inside).toBe(1);
    visit.leave();
    (await app.room.next()).leave();
    expect(await Promise.all(calls)).toEqual(type === CallingSuper ? [10, 10] : [1, 1]);
    expect(app.room.most).toBe(1);
    expect(await app.isLocked('goods:1')).toBe(false);
  });

  it.each(['by-service', 'by-request', 'nested', 'scoped'])(
    'excludes its calls in other requests (%s)',
    async (route) => {
      const app = await start();
      const calls = [app.call(`/${route}/1`), app.call(`/${route}/1`)];
      const visit = await app.room.next();
      await app.log.until('requested goods:1', 2);
      expect(app.room.inside).toBe(1);
      visit.leave();
      (await app.room.next()).leave();
      expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(['1', '1']);
      expect(app.room.most).toBe(1);
      // One grant per request, even if both the handler and the service are locked.
      expect(app.log.count('requested goods:1')).toBe(2);
    },
  );

  it('starts beside a provider whose class has no prototype', async () => {
    class Price {
      readonly amount = 7;
    }
    const app = await startApp({ providers: [{ provide: 'price', useClass: Price.bind(undefined) }] });
    expect(app.nest.get<Price>('price').amount).toBe(7);
  });
});

describe('nested calls', () => {
  it('share the hold and its token, without a request to Redis', async () => {
    const app = await start();
    const tokens = await app.nest.get(NestingService).tokens(1);
    expect(tokens).toEqual(Array.from({ length: 5 }, () => tokens[0]));
    expect(tokens[0]).toEqual(expect.any(Number));
    expect(app.log.lines).toEqual(['requested goods:1', 'granted goods:1', 'released goods:1']);
    expect(app.locks.current()).toBeUndefined();
  });
});
