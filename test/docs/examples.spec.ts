// Calls the code of the pages that needs no Redis.
import { Module, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  LockLostError,
  LockReplicationError,
  LockService,
  LockTimeoutError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { memory, RedisLockModule } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock, RedisLockTestingModule, withLocks } from 'nestjs-redis-lock/testing';
import { eventually, outcome } from '../support/async.js';
import { MemoryStore } from '../../lib/stores/memory/memory.store.js';
import { FaultyStore } from '../support/faulty-store.js';
import { load } from './blocks.js';

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
  jest.restoreAllMocks();
  jest.useRealTimers();
});

it('the first page of the site locks in both ways', async () => {
  const { OrderService } = load('docs/index.md', 'OrderService');
  const locks = createTestLocks();
  const orders = withLocks(new OrderService(locks), locks);
  expect(await Promise.all([orders.pay(1), orders.refund(1)])).toEqual(['order 1 is paid', 'order 1 is refunded']);
});

it('the quick start has a test that needs no Redis', async () => {
  process.env['REDIS_URL'] = 'redis://127.0.0.1:1';
  const { sellOneSeatTwice } = load('docs/quick-start.md', 'sellOneSeatTwice');
  expect(await sellOneSeatTwice()).toEqual([true, false]);
});

it('the decorator of a team locks the method below it', async () => {
  const { LockedReport } = load('docs/configuration.md', 'LockedReport');
  class Reports {
    @LockedReport(0)
    async write(): Promise<string | undefined> {
      return locks.current()?.resource;
    }
  }
  const locks = createTestLocks();
  expect(await withLocks(new Reports(), locks).write()).toBe('report');
});

it('the page on configuration sets options in every place', async () => {
  const { PriceService } = load('docs/configuration.md', 'PriceService');
  const locks = createTestLocks({ clock: new ManualClock() });
  const prices = withLocks(new PriceService(locks), locks);
  const both = await Promise.all([prices.update(1), prices.update(1)]);
  expect(both).toEqual(['price 1 is updated', 'price 1 is being updated: LOCK_TIMEOUT']);
  expect(await Promise.all([prices.updateIfFree(2), prices.updateIfFree(2)])).toEqual([true, false]);
});

it('the page on bundles has parameters whose names no minifier takes away', async () => {
  const { StockService } = load('docs/production.md', 'StockService');
  const stock = withLocks(new StockService());
  expect([await stock.sell(1), await stock.count(1)]).toEqual(['goods 1 are sold', 'goods 1 are counted']);
});

it('the page on edit locks hands a document to the next person after silence', async () => {
  const { DocumentsController } = load('docs/recipes/edit-lock.md', 'DocumentsController');
  const clock = new ManualClock();
  const documents = new DocumentsController(createTestLocks({ clock }));
  const first = await documents.edit('7');
  await expect(documents.edit('7')).rejects.toThrow(LockTimeoutError);
  await clock.advance(50_000);
  await documents.heartbeat('7', first.ticket);
  const saved = await documents.save('7', first.ticket, 'by Ann');
  await expect(documents.heartbeat('7', first.ticket)).rejects.toThrow(LockLostError);
  await clock.advance(61_000);
  const next = await documents.edit('7');
  await expect(documents.save('7', saved.ticket, 'late')).rejects.toThrow(LockLostError);
  const last = await documents.save('7', next.ticket, 'by Bob');
  expect([await documents.close('7', last.ticket), await documents.close('7', last.ticket)]).toEqual([
    { wasHeld: true },
    { wasHeld: false },
  ]);
  // A late writer that Redis does not know of.
  expect(() => documents.write('7', 'late', 1)).toThrow('There is a newer edit.');
});

describe('the page on guarantees', () => {
  it('passes the signal of its lock on, and sends the invoice', async () => {
    const { InvoiceService } = load('docs/guarantees.md', 'InvoiceService');
    const fetched = jest.spyOn(globalThis, 'fetch').mockResolvedValue(new Response('sent'));
    await withLocks(new InvoiceService()).send({ id: '1' });
    const sent = ['https://mail.example/send', { method: 'POST', signal: expect.any(AbortSignal) }];
    expect(fetched.mock.calls).toEqual([sent]);
    await expect(new InvoiceService().send({ id: '1' })).rejects.toThrow('has no lock service');
  });

  it('has a method that goes on without its lock', async () => {
    const { ReportService } = load('docs/guarantees.md', 'ReportService');
    const store = new FaultyStore(new MemoryStore(new ManualClock()));
    const imports = [RedisLockTestingModule.forRoot({ store: () => store, unavailableAfterMs: 0 })];
    const module = await Test.createTestingModule({ imports, providers: [ReportService] }).compile();
    // Closed at the end, so that no late release is sent.
    open.push(module);
    await module.init();
    const reports = module.get(ReportService);
    for (const Failure of [LockUnavailableError, LockReplicationError]) {
      store.lose('acquire', new Failure('Redis is down.'));
      expect(await reports.report('monday')).toBe('the report of monday');
    }
    const inMemory = withLocks(new ReportService(), createTestLocks({ store: memory() }));
    expect(await inMemory.report('friday')).toBe('the report of friday');
  });

  it('frees the lock that was looked at', async () => {
    const { freeStuckLock } = load('docs/guarantees.md', 'freeStuckLock');
    const locks = createTestLocks();
    expect(await freeStuckLock(locks, 'goods:300')).toBe(false);
    const lock = await locks.acquire('goods:300');
    expect(await freeStuckLock(locks, 'goods:300')).toBe(true);
    expect(() => lock.assertHeld()).toThrow('released by force');
  });
});

describe('the page on modes', () => {
  it('has shared locks and permits', async () => {
    const { CatalogueService } = load('docs/modes.md', 'CatalogueService');
    const catalogue = withLocks(new CatalogueService());
    expect(await Promise.all([catalogue.read('1'), catalogue.replace('1'), catalogue.order('2')])).toEqual([
      'the goods of 1',
      'the goods of 1',
      'ordered from 2',
    ]);
  });

  it('has several locks', async () => {
    const { AccountsService } = load('docs/modes.md', 'AccountsService');
    const accounts = withLocks(new AccountsService(createTestLocks()));
    const there = Array.from({ length: 5 }, () => accounts.transfer(1, 2, 10));
    const back = Array.from({ length: 3 }, () => accounts.transfer(2, 1, 10));
    await Promise.all([...there, ...back]);
    expect(await accounts.total([2, 3])).toBe(20);
    expect(await accounts.closeAll([1, 2])).toEqual([expect.any(Number), expect.any(Number)]);
    expect(await accounts.total([1, 2])).toBe(0);
  });

  it('has an assertion in work that needs the lock of its caller', async () => {
    const { LedgerService } = load('docs/modes.md', 'LedgerService');
    const locks = createTestLocks();
    const ledger = withLocks(new LedgerService(locks), locks);
    expect(await ledger.deposit(1, 50)).toBe('50 cents are booked under a token');
    await expect(ledger.book(1, 50)).rejects.toThrow('account:1 is not held here');
  });

  it('has a queue that requests share, whose loop runs outside of the hold that starts it', async () => {
    const { JournalService } = load('docs/modes.md', 'JournalService');
    const locks = createTestLocks();
    const journal = withLocks(new JournalService(locks), locks);
    await journal.close(async () => {
      journal.add('of another request');
      await new Promise(setImmediate);
      expect(journal.posted).toEqual([]);
    });
    await eventually('both are posted', () => journal.posted.length === 2);
    expect(journal.posted).toEqual(['closing', 'of another request']);
  });

  it('has a lock scope', async () => {
    const { OrderService, StockService } = load('docs/modes.md', 'OrderService');
    const locks = createTestLocks();
    const orders = new OrderService(withLocks(new StockService(), locks), locks);
    expect(await orders.order('1', '2')).toEqual([9, 9]);
    await orders.move('1', async () => {
      expect(await locks.inspect('goods:1')).not.toBeNull();
    });
    expect(await locks.inspect('goods:1')).toBeNull();
  });
});

describe('the page on jobs', () => {
  it('has a report that runs once at each tick', async () => {
    const { ReportJobs } = load('docs/recipes/jobs.md', 'ReportJobs');
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    const all = [1, 2, 3].map(() => withLocks(new ReportJobs(), locks));
    for (const tick of [1, 2]) {
      await Promise.all(all.map((jobs) => jobs.report()));
      await clock.advance(59_000); // a tick that comes a second early
      expect(all.flatMap(({ sent }) => sent)).toHaveLength(tick);
    }
  });

  it('has mails that are sent once, and again after a failure', async () => {
    const { MailService } = load('docs/recipes/jobs.md', 'MailService');
    const locks = createTestLocks({ clock: new ManualClock() });
    const mails = withLocks(new MailService(), locks);
    await expect(mails.onPaid({ id: 7, to: '' })).rejects.toThrow('no address');
    const deliveries = [mails.onPaid({ id: 7, to: 'ann@example.com' }), mails.onPaid({ id: 7, to: 'ann@example.com' })];
    expect(await Promise.all(deliveries)).toEqual([true, undefined]);
    expect(mails.outbox).toEqual(['ann@example.com']);
  });

  it('has work that says whether it ran', async () => {
    const { rebuild } = load('docs/recipes/jobs.md', 'rebuild');
    const locks = createTestLocks({ clock: new ManualClock() });
    expect([await rebuild(locks), await rebuild(locks)]).toEqual(['3 pages', 'already done']);
  });
});

describe('the page on leader election', () => {
  it('has a cron job that runs once', async () => {
    const { ReportService } = load('docs/leader-election.md', 'ReportService');
    const locks = createTestLocks({ clock: new ManualClock() });
    const [one, other] = [withLocks(new ReportService(), locks), withLocks(new ReportService(), locks)];
    await one.hourly();
    await other.hourly();
    expect(await locks.using('report', { onceMs: 1 }, () => 'again')).toBeUndefined();
  });

  it('has a method that runs on the leader', async () => {
    const { OutboxService } = load('docs/leader-election.md', 'OutboxService');
    const imports = [RedisLockTestingModule.forRoot({ clock: new ManualClock() })];
    const module = await Test.createTestingModule({ imports, providers: [OutboxService] }).compile();
    open.push(module);
    await module.init();
    const outbox = module.get(OutboxService);
    await eventually('the outbox is empty', () => outbox.outbox.length === 0);
    expect(outbox.sent).toEqual(['invoice 1', 'invoice 2']);
  });

  it('has a candidate that logs its terms', async () => {
    const { leadQueue } = load('docs/leader-election.md', 'leadQueue');
    const locks = createTestLocks({ clock: new ManualClock() });
    const lines: string[] = [];
    const leadership = leadQueue(locks, (line: string) => lines.push(line));
    await eventually('it leads', () => leadership.isLeader);
    await leadership.close();
    expect(lines).toEqual([expect.stringMatching(/^leads with token \d+$/), 'stepped down']);
  });
});

describe('the page on testing', () => {
  it('has a line that makes a whole application lock in memory', async () => {
    process.env['REDIS_URL'] = 'redis://127.0.0.1:1';
    const { wholeApplication } = load('docs/testing.md', 'wholeApplication');
    expect(await wholeApplication()).toBe(true);
  });

  it('has unit tests', async () => {
    const { byHand, inAModule } = load('docs/testing.md', 'inAModule');
    expect(await inAModule()).toBe(true);
    expect(await byHand()).toBe(false);
  });

  it('has a manual clock that ends a lease', async () => {
    const { lostAfterItsLease } = load('docs/testing.md', 'lostAfterItsLease');
    expect(await lostAfterItsLease()).toBe(true);
  });

  it('says that fake timers of the test runner do not end a lease', async () => {
    const locks = createTestLocks();
    const lock = await locks.acquire('goods:300', { ttlMs: 30_000 });
    jest.useFakeTimers();
    jest.advanceTimersByTime(60_000);
    lock.assertHeld();
    expect(await locks.inspect('goods:300')).not.toBeNull();
    expect(await lock.release()).toBe(true);
  });

  it('has a bench for locks that are busy, lost and unavailable', async () => {
    const { isBusy, isLost, isWithoutRedis } = load('docs/testing.md', 'isBusy');
    await expect(isBusy()).rejects.toThrow(LockTimeoutError);
    await expect(isLost()).rejects.toThrow(LockLostError);
    expect(await isWithoutRedis()).toEqual([undefined, ['unavailable', 'requested', 'unavailable']]);
    const { Checkout, Orders } = load('docs/testing.md', 'Checkout');
    expect(await withLocks(new Checkout(new Orders())).pay(7)).toBe('paid');
  });
});

describe('the pages on production', () => {
  it('list locks', async () => {
    const { printLocks } = load('docs/live-state.md', 'printLocks');
    const lines: string[] = [];
    const locks = createTestLocks({ identity: 'api-7f9c-31' });
    await locks.using('goods:300', () => printLocks(locks, (line: string) => lines.push(line)));
    expect(lines).toEqual(['goods:300: held by api-7f9c-31, 0 waiting']);
  });

  async function start(controllers: Type[], imports: Type[] = []) {
    @Module({ imports: [RedisLockModule.forRoot({ store: memory() }), ...imports], controllers })
    class AppModule {}
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = module.createNestApplication({ logger: false });
    await app.listen(0, '127.0.0.1');
    open.push(app);
    const get = async (path: string) => fetch(`${await app.getUrl()}/${path}`, { headers: { connection: 'close' } });
    return { app, get };
  }

  it('have a health check', async () => {
    const { ReadinessModule } = load('docs/live-state.md', 'ReadinessModule');
    const { get } = await start([], [ReadinessModule]);
    expect(await (await get('ready')).json()).toMatchObject({ status: 'ok', details: { locks: { status: 'up' } } });
  });

  it('have a readiness check that is down in a shutdown while requests are served', async () => {
    const { ReadyController } = load('docs/production.md', 'ReadyController');
    const { app, get } = await start([ReadyController]);
    expect((await get('ready')).status).toBe(200);
    const closing = app.close();
    const locks = app.get(LockService);
    await eventually('the shutdown begins', () => locks.isShuttingDown);
    expect((await get('ready')).status).toBe(503);
    expect(await locks.using('goods:300', () => 'served')).toBe('served');
    await closing;
  });

  it('have an instrumentation', async () => {
    const { lockInstrumentation } = load('docs/observability.md', 'lockInstrumentation');
    expect(await createTestLocks().using('goods:300', () => 'done')).toBe('done');
    lockInstrumentation.disable();
  });

  it('have a controller with metrics', async () => {
    const { MetricsController } = load('docs/observability.md', 'MetricsController');
    const controller = new MetricsController();
    await createTestLocks().using('goods:300', () => undefined);
    const count = 'redis_lock_hold_duration_seconds_count{name="default",family="goods"';
    expect(await controller.metrics()).toContain(count);
    controller.onModuleDestroy();
    expect(await controller.metrics()).not.toContain('redis_lock');
  });

  it('have a subscriber that reports slow locks', async () => {
    const { logSlowLocks } = load('docs/observability.md', 'logSlowLocks');
    const clock = new ManualClock();
    const locks = createTestLocks({ clock });
    const lines: string[] = [];
    const stop = logSlowLocks(1_000, (line: string) => lines.push(line));
    for (const ms of [500, 2_000]) await locks.using(`goods:${ms}`, () => clock.advance(ms));
    stop();
    await locks.using('goods:3000', () => clock.advance(3_000));
    expect(lines).toEqual([expect.stringMatching(/^\S+-\d+ goods:2000: waited 0 ms, held 2000 ms, released$/)]);
  });
});

describe('the recipe for suppliers', () => {
  const times = <T>(count: number, call: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, call));

  it('sends five requests a second', async () => {
    const { SupplierClient } = load('docs/recipes/requests.md', 'SupplierClient');
    const clock = new ManualClock();
    const sentAt: number[] = [];
    const supplier = withLocks(new SupplierClient(), createTestLocks({ clock }));
    supplier.send = async () => {
      sentAt.push(clock.now());
      return 'ordered';
    };
    const all = outcome(times(12, () => supplier.search('acme', 'screws')));
    for (let step = 0; step < 40 && all.value === undefined; step += 1) await clock.advance(100);
    expect(all).toEqual({ value: Array.from({ length: 12 }, () => 'ordered') });
    expect(sentAt.filter((at) => at < 1_000)).toHaveLength(5);
    // No window of a second has a sixth request.
    for (const [i, at] of sentAt.slice(5).entries()) expect(at - sentAt[i]).toBeGreaterThanOrEqual(1_000);
  });

  it('lets five requests run at a time', async () => {
    const { SupplierClient } = load('docs/recipes/requests.md', 'SupplierClient');
    let [inside, most] = [0, 0];
    const supplier = withLocks(new SupplierClient(), createTestLocks({ clock: new ManualClock() }));
    supplier.send = async () => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
      return 'ordered';
    };
    await times(12, () => supplier.order('acme', 'screws'));
    expect(most).toBe(5);
  });
});
