import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { bindLocks, Locked } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { optionsAt } from '../../lib/options/option-table.js';
import { page } from '../support/pages.js';
import { testRedisUrl } from '../support/shared-redis.js';

const ofModule = { ...optionsAt('module'), ...optionsAt('extras') };
const ofLock = optionsAt('lock');
const allOptions = { ...ofModule, ...ofLock };

/** The defaults that are computed. */
const COMPUTED: Readonly<Record<string, string>> = {
  store: 'token()',
  identity: 'host name and pid',
};

/** Returns an option as the page on configuration names it, with its mark. */
function markOf(option: string): string {
  if (!(option in ofLock)) return option;
  return `${option} ${option in ofModule ? '•' : '◦'}`;
}

/** Returns the options in the tables of a page, with their marks and defaults. */
function optionsOf(file: string): ReadonlyMap<string, string> {
  const row = /^\| `(\w+)`( [•◦])? *\| `?([^|`]*?)`? *\|/gm;
  return new Map([...page(file).text.matchAll(row)].map(([, name, mark = '', value]) => [name + mark, value]));
}

describe('the first page of the site', () => {
  it('has an example that works', async () => {
    const { OrderService } = await import('./first-look.js');
    const locks = createTestLocks();
    const orders = withLocks(new OrderService(locks), locks);
    expect(await Promise.all([orders.pay(1), orders.refund(1)])).toEqual(['order 1 is paid', 'order 1 is refunded']);
  });
});

describe('the README', () => {
  it('has an example that works', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const { AppModule, StockService } = await import('./quick-start.js');
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    try {
      expect(await app.get(StockService).restock(300, 1)).toBeGreaterThan(1e15);
      const buy = async () => (await fetch(`${await app.getUrl()}/goods/300/buyers/7`, { method: 'POST' })).text();
      expect(await buy()).toBe('true');
      expect(await buy()).toBe('false');
    } finally {
      await app.close();
    }
  });
});

describe('the page on configuration', () => {
  it('lists every option of the module and of a lock, with its mark and its default', () => {
    const rows = Object.entries<{ readonly default: string | number | boolean | undefined }>(allOptions);
    const expected = rows.map(
      ([name, row]) => [markOf(name), COMPUTED[name] ?? String(row.default ?? 'none')] as const,
    );
    expect(optionsOf('docs/configuration.md')).toEqual(new Map(expected));
  });

  it('explains every option, with its mark', () => {
    const { text } = page('docs/configuration.md');
    const explained = [...text.matchAll(/^### `(\w+)`( [•◦])?$/gm)].map(([, name, mark = '']) => name + mark);
    expect(explained.toSorted()).toEqual(Object.keys(allOptions).map(markOf).toSorted());
  });

  it('has an example that works', async () => {
    const { PriceService } = await import('./options.js');
    const locks = createTestLocks();
    const prices = withLocks(new PriceService(locks), locks);
    const both = await Promise.all([prices.update(1), prices.update(1)]);
    expect(both).toEqual(['price 1 is updated', 'price 1 is being updated: LOCK_TIMEOUT']);
    expect(await Promise.all([prices.updateIfFree(2), prices.updateIfFree(2)])).toEqual([true, false]);
  });

  it('binds locks to objects that code makes', async () => {
    class Shelf {
      @Locked('shelf:<id>')
      async fill(id: number): Promise<string> {
        return `shelf ${id} is filled`;
      }
    }
    const locks = createTestLocks();
    const [one, other] = [bindLocks(new Shelf(), locks), bindLocks(new Shelf(), locks)];
    expect(await Promise.all([one.fill(1), other.fill(1)])).toEqual(['shelf 1 is filled', 'shelf 1 is filled']);
  });
});
