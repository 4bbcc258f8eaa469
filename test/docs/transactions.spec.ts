import { TransactionHost } from '@nestjs-cls/transactional';
import { afterEach, expect, it } from '@jest/globals';
import { LockService, RedisLockModule } from 'nestjs-redis-lock';
import { startRecordedApp } from '../nest/transactions/recorded-transactions.js';
import { closeApps } from '../nest/support/app.js';
import { page } from '../support/pages.js';
import { testRedisUrl } from '../support/shared-redis.js';

afterEach(closeApps);

// The figures come from test/nest/transactions/orders.slow.spec.ts, which also checks the rows.
it('the page on transactions has figures of all orders, and none is lost with a scope', () => {
  const { text } = page('docs/transactions.md');
  const rows = [...text.matchAll(/^\| .*?@?\w.*?\| (\d+) +\| (\d+) +\|$/gm)];
  const figures = rows.map(([, without, within]) => [Number(without), Number(within)]);
  expect(figures.filter(([without]) => without === 60)).toHaveLength(2);
  expect(figures.filter(([without]) => without < 60)).toHaveLength(3);
  expect(figures.every(([, within]) => within === 60)).toBe(true);
});

type Work = () => Promise<unknown>;

const EXAMPLES = {
  'the transaction host': () => {
    // The function in the first row of the table.
    const inTransaction = () => TransactionHost.getInstance().isTransactionActive();
    const locks = RedisLockModule.forRoot({ redis: testRedisUrl(), inTransaction });
    return { locks, inside: (work: Work) => TransactionHost.getInstance().withTransaction(work) };
  },
  'a function of the application': async () => {
    const { locks, remembered } = await import('./transactions/remembered-transactions.js');
    return { locks, inside: remembered };
  },
};

it.each(Object.entries(EXAMPLES))('a lock that ends in a transaction is logged, as known by %s', async (_, load) => {
  process.env['REDIS_URL'] = testRedisUrl();
  const { locks, inside } = await load();
  const { app } = await startRecordedApp({ unscoped: true, lockModules: () => [locks] });
  const service = app.nest.get(LockService);
  const warnings = () => app.logged.filter((line) => line.includes('ends in a transaction'));
  const resource = `transactions-page:${process.pid}`;
  await service.using(resource, () => inside(() => Promise.resolve()));
  expect(warnings()).toEqual([]);
  await inside(() => service.using(resource, () => undefined));
  expect(warnings()).toEqual([expect.stringContaining(`The lock on ${resource} ends in a transaction, at `)]);
});
