// Calls the code of the pages that needs no Redis.
import { Module, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { LockLostError, LockReplicationError, LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
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

it('the page on configuration sets options in every place', async () => {
  const { PriceService } = load('docs/configuration.md', 'PriceService');
  const locks = createTestLocks({ clock: new ManualClock() });
  const prices = withLocks(new PriceService(), locks);
  const both = await Promise.all([prices.update(1), prices.update(1)]);
  expect(both).toEqual(['price 1 is updated', 'price 1 is being updated: LOCK_TIMEOUT']);
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

describe('the page on outages', () => {
  it('has a method that goes on without its lock', async () => {
    const { ReportService } = load('docs/redis-down.md', 'ReportService');
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
});

describe('the page on read/write locks', () => {
  it('has shared locks', async () => {
    const { CatalogueService } = load('docs/read-write-semaphores.md', 'CatalogueService');
    const catalogue = withLocks(new CatalogueService());
    expect(await Promise.all([catalogue.read('1'), catalogue.replace('1')])).toEqual([
      'the goods of 1',
      'the goods of 1',
    ]);
  });

  it('has several locks', async () => {
    const { AccountsService } = load('docs/read-write-semaphores.md', 'AccountsService');
    const accounts = withLocks(new AccountsService());
    const there = Array.from({ length: 5 }, () => accounts.transfer(1, 2, 10));
    const back = Array.from({ length: 3 }, () => accounts.transfer(2, 1, 10));
    await Promise.all([...there, ...back]);
    expect(await accounts.total([2, 3])).toBe(20);
  });
});

describe('the page on jobs', () => {
  it('has a report that runs once at each tick', async () => {
    const { ReportJobs } = load('docs/cron-once.md', 'ReportJobs');
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
    const { MailService } = load('docs/cron-once.md', 'MailService');
    const locks = createTestLocks({ clock: new ManualClock() });
    const mails = withLocks(new MailService(), locks);
    await expect(mails.onPaid({ id: 7, to: '' })).rejects.toThrow('no address');
    const deliveries = [mails.onPaid({ id: 7, to: 'ann@example.com' }), mails.onPaid({ id: 7, to: 'ann@example.com' })];
    expect(await Promise.all(deliveries)).toEqual([true, undefined]);
    expect(mails.outbox).toEqual(['ann@example.com']);
  });
});

describe('the page on leaders', () => {
  it('has a method that runs on the leader', async () => {
    const { OutboxService } = load('docs/cron-once.md', 'OutboxService');
    const imports = [RedisLockTestingModule.forRoot({ clock: new ManualClock() })];
    const module = await Test.createTestingModule({ imports, providers: [OutboxService] }).compile();
    open.push(module);
    await module.init();
    const outbox = module.get(OutboxService);
    await eventually('the outbox is empty', () => outbox.outbox.length === 0);
    expect(outbox.sent).toEqual(['invoice 1', 'invoice 2']);
  });
});

describe('the page on testing', () => {
  it('has a line that makes a whole application lock in memory', async () => {
    process.env['REDIS_URL'] = 'redis://127.0.0.1:1';
    const { wholeApplication } = load('docs/testing.md', 'wholeApplication');
    expect(await wholeApplication()).toBe(true);
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
    const { isBusy, isLost } = load('docs/testing.md', 'isBusy');
    await expect(isBusy()).rejects.toThrow(LockTimeoutError);
    await expect(isLost()).rejects.toThrow(LockLostError);
    const { Checkout, Orders } = load('docs/testing.md', 'Checkout');
    expect(await withLocks(new Checkout(new Orders())).pay(7)).toBe('paid');
  });
});

describe('the pages on operation', () => {
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
    const { ReadinessModule } = load('docs/observability.md', 'ReadinessModule');
    const { get } = await start([], [ReadinessModule]);
    expect(await (await get('ready')).json()).toMatchObject({ status: 'ok', details: { locks: { status: 'up' } } });
  });

  it('have an instrumentation', async () => {
    const { lockInstrumentation } = load('docs/observability.md', 'lockInstrumentation');
    expect(await createTestLocks().using('goods:300', () => 'done')).toBe('done');
    lockInstrumentation.disable();
  });
});

describe('the limits of a supplier', () => {
  const times = <T>(count: number, call: () => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, call));

  it('sends five requests a second', async () => {
    const { SupplierClient } = load('docs/read-write-semaphores.md', 'SupplierClient');
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
    const { SupplierClient } = load('docs/read-write-semaphores.md', 'SupplierClient');
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
