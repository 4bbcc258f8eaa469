// @nestjs-cls/transactional in real applications, with an adapter that records its transactions.
import { Controller, Injectable, Param, ParseIntPipe, Post } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Propagation, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { Locked, LockLostError, LockService } from 'nestjs-redis-lock';
import { closeApps, keyOf, rawRedis, type TestApp } from './support/app.js';
import { Room } from './support/room.js';
import { onStoppedServer } from './support/stopped-app.js';
import { type RecordedSetUp, type RecordingAdapter, startRecordedApp } from './support/recorded-transactions.js';

const clock = onStoppedServer();

@Injectable()
class Stock {
  constructor(private readonly room: Room) {}

  @Locked('goods:<id>', { ttlMs: 1_500 })
  async sell(id: number): Promise<string> {
    await this.room.stay(id);
    return `sold ${id}`;
  }
}

type Step = () => Promise<unknown>;

@Injectable()
class Shop {
  constructor(
    private readonly host: TransactionHost<RecordingAdapter>,
    readonly stock: Stock,
    private readonly locks: LockService,
    private readonly room: Room,
  ) {}

  @Transactional()
  async inTransaction<T>(work: () => Promise<T>): Promise<T> {
    return work();
  }

  @Transactional()
  @Locked('goods:<id>')
  async transactionAbove(id: number): Promise<void> {
    await this.room.stay(id);
  }

  @Locked('goods:<id>')
  @Transactional()
  async lockedAbove(id: number): Promise<void> {
    await this.room.stay(id);
  }

  async byHand(id: number): Promise<void> {
    await this.host.withTransaction(async () => {
      const lock = await this.locks.acquire(`goods:${id}`);
      await this.room.stay(id);
      await lock.release();
    });
  }

  async sellIn(propagation: Propagation, id: number): Promise<string> {
    return this.host.withTransaction(propagation, () => this.stock.sell(id));
  }
}

@Controller()
class ShopController {
  constructor(private readonly room: Room) {}

  @Post('sell/:id')
  @Transactional()
  @Locked('goods:<id>')
  async sell(@Param('id', ParseIntPipe) id: number): Promise<string> {
    await this.room.stay(id);
    return 'sold';
  }
}

const setUp = { providers: [Shop, Stock], controllers: [ShopController] };
const start = (more: RecordedSetUp = {}) => startRecordedApp({ ...setUp, ...more });
/** The lines of the log about grants, releases and transactions. */
const linesOf = ({ log }: TestApp): readonly string[] =>
  log.lines.filter((line) => !/^(requested|extended)/.test(line));

/** Runs a step whose methods stay in the room until they may leave, one by one. */
async function run(app: TestApp, step: Step, visits = 1): Promise<unknown> {
  const end = step();
  for (let visit = 0; visit < visits; visit += 1) {
    const visitor = await Promise.race([app.room.next(), end.then(() => undefined)]);
    visitor?.leave();
  }
  return end;
}

afterEach(closeApps);

describe('a lock that ends in a transaction', () => {
  const orders: [string, (shop: Shop) => Promise<unknown>][] = [
    ['@Transactional above @Locked', (shop) => shop.transactionAbove(1)],
    [
      'a transaction that calls a locked service',
      (shop) => shop.inTransaction(() => shop.sellIn(Propagation.Required, 1)),
    ],
    ['acquire() and release() in a transaction', (shop) => shop.byHand(1)],
  ];

  it.each(orders)('is released before the commit without the scope: %s', async (_, sell) => {
    const { app } = await start({ unscoped: true });
    await run(app, () => sell(app.nest.get(Shop)));
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'released goods:1', 'commit 1']);
  });

  it.each(orders)('is released after the commit: %s', async (_, sell) => {
    const { app } = await start();
    await run(app, () => sell(app.nest.get(Shop)));
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'commit 1', 'released goods:1']);
  });

  it('stays where it is if @Locked stands above @Transactional', async () => {
    const { app } = await start();
    await run(app, () => app.nest.get(Shop).lockedAbove(1));
    expect(linesOf(app)).toEqual(['granted goods:1', 'begin 1', 'commit 1', 'released goods:1']);
  });

  it('is released after the commit on a handler of a controller', async () => {
    const { app } = await start();
    const response = app.call('/sell/1', { method: 'POST' });
    (await app.room.next()).leave();
    expect(await response).toMatchObject({ status: 201, text: 'sold' });
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'commit 1', 'released goods:1']);
  });

  it('is released after the rollback, and the error is unchanged', async () => {
    const { app } = await start();
    const end = app.nest.get(Shop).transactionAbove(1);
    const error = new Error('sold out');
    (await app.room.next()).fail(error);
    await expect(end).rejects.toBe(error);
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'rollback 1', 'released goods:1']);
  });

  it('is released after a commit that fails, and the error is unchanged', async () => {
    const { app, journal } = await start();
    const error = new Error('could not serialize access');
    journal.onCommit = () => Promise.reject(error);
    await expect(run(app, () => app.nest.get(Shop).transactionAbove(1))).rejects.toBe(error);
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'rollback 1', 'released goods:1']);
  });

  it('is acquired again at once in the same transaction', async () => {
    const { app } = await start();
    const shop = app.nest.get(Shop);
    const sell = (): Promise<string> => shop.sellIn(Propagation.Required, 1);
    await run(app, () => shop.inTransaction(async () => [await sell(), await sell()]), 2);
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'commit 1', 'released goods:1']);
  });
});

describe('concurrent calls of one transaction', () => {
  it('do not exclude each other in its scope, and are granted the lock once', async () => {
    const { app } = await start();
    const shop = app.nest.get(Shop);
    const sell = (): Promise<string> => shop.sellIn(Propagation.Required, 1);
    const end = shop.inTransaction(() => Promise.all([sell(), sell(), sell()]));
    const visits = [await app.room.next(), await app.room.next(), await app.room.next()];
    for (const visit of visits) visit.leave();
    await expect(end).resolves.toEqual(['sold 1', 'sold 1', 'sold 1']);
    expect(linesOf(app).slice(-2)).toEqual(['commit 1', 'released goods:1']);
    expect(app.log.count('granted')).toBe(1);
  });
});

describe('a locked service that is called', () => {
  const own = ['begin 1', 'granted goods:1', 'commit 1', 'released goods:1'];
  const ofOuter = ['begin 1', 'granted goods:1', 'inner ends', 'commit 1', 'released goods:1'];
  const none = ['granted goods:1', 'released goods:1'];
  const nestedIn = (begin: string, end: string) => {
    return ['begin 1', begin, 'granted goods:1', end, 'inner ends', 'commit 1', 'released goods:1'];
  };

  it.each<[Propagation, inside: string[], outside: string[]]>([
    [Propagation.Required, ofOuter, own],
    [Propagation.Mandatory, ofOuter, ['refused']],
    [Propagation.Supports, ofOuter, none],
    [Propagation.NotSupported, ofOuter, none],
    [Propagation.RequiresNew, nestedIn('begin 2', 'commit 2'), own],
    [Propagation.Nested, nestedIn('savepoint of 1: 2', 'release savepoint 2'), own],
    [Propagation.Never, ['begin 1', 'rollback 1', 'refused'], none],
  ])('by %s inside and outside of a transaction keeps its lock until all have ended', async (propagation, ...all) => {
    for (const [index, expected] of all.entries()) {
      const { app, journal } = await start();
      const shop = app.nest.get(Shop);
      const sell = (): Promise<string> => shop.sellIn(propagation, 1);
      const sellInside = (): Promise<void> => shop.inTransaction(() => sell().then(() => journal.write('inner ends')));
      const end = run(app, index === 0 ? sellInside : sell);
      await end.catch(() => app.log.add('refused'));
      expect(linesOf(app)).toEqual(expected);
    }
  });
});

describe('a lock that is lost after its use', () => {
  /** Sells in a transaction that commits after the lock was lost. */
  async function sellAndLose(more: RecordedSetUp) {
    const { app } = await start(more);
    const shop = app.nest.get(Shop);
    const end = shop.inTransaction(async () => {
      const result = await shop.sellIn(Propagation.Required, 1);
      await rawRedis().del(keyOf(app.prefix, 'goods:1'));
      await clock().until(app.log.until('lost goods:1'));
      return result;
    });
    (await app.room.next()).leave();
    return { app, end };
  }

  it('rolls the transaction back', async () => {
    const { app, end } = await sellAndLose({});
    await expect(end).rejects.toThrow(LockLostError);
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'lost goods:1', 'rollback 1']);
  });

  it('does not if the loss is to be ignored', async () => {
    const { app, end } = await sellAndLose({ options: { onLost: 'ignore' } });
    await expect(end).resolves.toBe('sold 1');
    expect(linesOf(app)).toEqual(['begin 1', 'granted goods:1', 'lost goods:1', 'commit 1']);
  });
});
