import {
  Body,
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  Param,
  ParseIntPipe,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { from as after, map, Observable, retry } from 'rxjs';
import { CurrentLock, Locked, LockKeyError, LockService, MultiLock, resource } from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';
import { closeApps, PLATFORMS, startApp, type TestApp } from './support/app.js';
import { Room } from './support/room.js';

interface Cart {
  readonly ids: readonly unknown[];
  readonly shops: readonly string[];
}

@Injectable()
class TransferService {
  constructor(private readonly room: Room) {}

  @Locked(['account:<from>', 'account:<to>'], { waitMs: 0, onBusy: 'skip' })
  async quick(from: number, to: number, @CurrentLock() locks?: MultiLock): Promise<string | undefined> {
    return this.room.stay(locks?.resources.join() ?? `${from}, ${to}`);
  }
}

@Injectable()
class Again implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(1));
  }
}

@Controller()
class TransferController {
  constructor(
    private readonly room: Room,
    private readonly transfers: TransferService,
    private readonly locks: LockService,
  ) {}

  @Post('transfer/:from/:to')
  @Locked(['account:<from>', 'account:<to>'])
  async transfer(
    @Param('from', ParseIntPipe) from: number,
    @Param('to', ParseIntPipe) to: number,
    @CurrentLock() locks: MultiLock,
  ): Promise<object> {
    await this.room.stay(`${from} to ${to}`);
    locks.assertHeld();
    const { fencingToken } = locks.of(`account:${to}`);
    const inner = await this.locks.using(`account:${from}`, { waitMs: 0 }, (lock) => lock.fencingToken);
    return { class: locks.constructor.name, resources: locks.resources, tokens: [fencingToken, inner] };
  }

  @Post('now/:from/:to')
  @Locked(['account:<from>', 'account:<to>'], { waitMs: 0 })
  now(@Param('from') from: string, @Param('to') to: string): Promise<string | undefined> {
    return this.room.stay(`${from} to ${to}`);
  }

  @Post('stream/:from/:to')
  @Locked(['account:<from>', 'account:<to>'])
  stream(@Param('from') from: string, @Param('to') to: string, @CurrentLock() locks: MultiLock): Observable<string> {
    return after(this.room.stay(`${from} to ${to}`)).pipe(map(() => locks.resources.join()));
  }

  @Post('again/:from/:to')
  @UseInterceptors(Again)
  @Locked(['account:<from>', 'account:<to>'])
  async again(@Param('from') from: string, @Param('to') to: string, @CurrentLock() locks: MultiLock): Promise<string> {
    await this.room.stay(`${from} to ${to}`);
    return locks.resources.join();
  }

  @Post('skip/:from/:to')
  async skip(@Param('from', ParseIntPipe) from: number, @Param('to', ParseIntPipe) to: number): Promise<object> {
    return { result: (await this.transfers.quick(from, to)) ?? 'skipped' };
  }

  @Post('cart')
  @Locked('goods:<...cart.ids>', { waitMs: 0 })
  cart(@Body() cart: Cart, @CurrentLock() locks: MultiLock): Promise<string | undefined> {
    return this.room.stay(locks.resources.slice(0, cart.ids.length).join());
  }

  @Post('shops')
  @Locked('goods:<cart.shops>:<...cart.ids>', { waitMs: 0 })
  async shops(@Body() cart: Cart): Promise<number> {
    return cart.ids.length;
  }

  @Post('function')
  @Locked((cart: Cart) => cart.ids.map((id) => resource`goods:${Number(id)}`), { waitMs: 0 })
  function(@Body() cart: Cart, @CurrentLock() locks: MultiLock): Promise<string | undefined> {
    return this.room.stay(locks.resources.join() || String(cart.ids.length));
  }
}

afterEach(closeApps);

describe.each(PLATFORMS)('several locks on %s', (platform) => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp({ platform, controllers: [TransferController], providers: [TransferService] });
  });

  const post = (path: string, body?: object) =>
    app.call(path, {
      method: 'POST',
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });

  const areLocked = (resources: readonly string[]) => Promise.all(resources.map((one) => app.isLocked(one)));

  it('are held by a handler until the response, as one MultiLock', async () => {
    const response = post('/transfer/0001/2');
    const visit = await app.room.next();
    expect(await areLocked(['account:1', 'account:2'])).toEqual([true, true]);
    visit.leave();
    const { status, body } = await response;
    expect(status).toBe(201);
    expect(body).toMatchObject({ class: 'MultiLock', resources: ['account:1', 'account:2'] });
    expect(body.tokens[0]).toBe(body.tokens[1]);
    expect(await areLocked(['account:1', 'account:2'])).toEqual([false, false]);
  });

  it('do not deadlock if the lists of two requests overlap', async () => {
    const requests = Array.from({ length: 8 }, (_, i) => post(i % 2 === 0 ? '/transfer/1/2' : '/transfer/2/1'));
    for (const _ of requests) (await app.room.next()).leave();
    expect((await Promise.all(requests)).map(({ status }) => status)).toEqual(requests.map(() => 201));
    expect(app.room.most).toBe(1);
    expect(new Set(app.room.visited)).toEqual(new Set(['1 to 2', '2 to 1']));
  });

  it('are held until the end of a stream', async () => {
    const response = post('/stream/1/2');
    const visit = await app.room.next();
    expect(await areLocked(['account:1', 'account:2'])).toEqual([true, true]);
    visit.leave();
    expect((await response).text).toBe('account:1,account:2');
    expect(await areLocked(['account:1', 'account:2'])).toEqual([false, false]);
  });

  it('stay held while an interceptor retries the handler', async () => {
    const response = post('/again/2/1');
    (await app.room.next()).fail(new Error('not now'));
    const visit = await app.room.next();
    expect(await areLocked(['account:1', 'account:2'])).toEqual([true, true]);
    visit.leave();
    expect((await response).text).toBe('account:2,account:1');
    expect(app.log.count('granted account:1')).toBe(1);
    expect(await areLocked(['account:1', 'account:2'])).toEqual([false, false]);
  });

  it('of the same resource are one lock', async () => {
    const response = post('/transfer/1/1');
    (await app.room.next()).leave();
    expect((await response).body).toMatchObject({ resources: ['account:1'] });
  });

  it('are a 423 without waiting if one is held, and none is acquired', async () => {
    await app.locks.using('account:2', async () => {
      const { status, headers, body } = await post('/now/1/2');
      expect(status).toBe(423);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(body.message).toContain('account:2 is locked by others');
      expect(await app.isLocked('account:1')).toBe(false);
      expect((await post('/skip/2/1')).body).toEqual({ result: 'skipped' });
    });
    expect(app.room.visits).toBe(0);
    expect(app.log.count('granted account:1')).toBe(0);
  });

  it('are acquired by a provider', async () => {
    const response = post('/skip/2/1');
    const visit = await app.room.next();
    expect(visit.of).toBe('account:2,account:1');
    expect(await areLocked(['account:1', 'account:2'])).toEqual([true, true]);
    visit.leave();
    await response;
    expect(await areLocked(['account:1', 'account:2'])).toEqual([false, false]);
  });

  it.each(['cart', 'function'])('are named by an array in the arguments: %s', async (path) => {
    const response = post(`/${path}`, { ids: [7, '3', 7] });
    const visit = await app.room.next();
    expect(visit.of).toBe('goods:7,goods:3');
    expect(await areLocked(['goods:3', 'goods:7'])).toEqual([true, true]);
    expect((await post('/cart', { ids: [1, 3] })).status).toBe(423);
    const beside = post('/function', { ids: [1] });
    (await app.room.next()).leave();
    expect((await beside).status).toBe(201);
    visit.leave();
    expect((await response).status).toBe(201);
  });

  it.each([
    ['an empty list', 'cart', { ids: [] }, 'is an empty array'],
    ['a list in a list', 'cart', { ids: [[1]] }, 'is an array'],
    ['an element that cannot form a key', 'cart', { ids: [1, null] }, 'is null'],
    ['too many', 'cart', { ids: Array.from({ length: 1_001 }, (_, i) => i) }, 'has 1001 elements'],
    ['a list that is not spread', 'shops', { ids: [1], shops: ['a'] }, "'shops' is an array; expected one value"],
  ])('%s is a 400, and nothing is locked', async (_, path, body, message) => {
    const response = await post(`/${path}`, body);
    expect([response.status, response.body.message]).toEqual([400, expect.stringContaining(message)]);
    expect(app.room.visits).toBe(0);
    expect(app.log.count(/requested|granted/)).toBe(0);
  });

  it('an empty list of a function is a 500, and nothing is locked', async () => {
    expect((await post('/function', { ids: [] })).status).toBe(500);
    expect(app.logged.join('\n')).toContain('The list of resources is an empty array');
    expect(app.room.visits).toBe(0);
    expect(app.log.count(/requested|granted/)).toBe(0);
  });
});

describe('@Locked with a list', () => {
  it('refuses an empty list at decoration', () => {
    const decorate = () => {
      class Empty {
        @Locked([])
        async work(): Promise<void> {}
      }
      return Empty;
    };
    expect(decorate).toThrow('the list of @Locked is an empty array');
  });

  it('checks each template at decoration', () => {
    const decorate = () => {
      class Wrong {
        @Locked(['account:<from>', 'account:<too>'])
        async work(from: number, to: number): Promise<number> {
          return from + to;
        }
      }
      return Wrong;
    };
    expect(decorate).toThrow(LockKeyError);
  });

  it('works in a unit test without an application', async () => {
    const room = new Room();
    const transfers = withLocks(new TransferService(room));
    const done = transfers.quick(1, 2);
    const visit = await room.next();
    expect(await transfers.quick(2, 1)).toBeUndefined();
    visit.leave();
    expect(await done).toBe('account:1,account:2');
  });
});
