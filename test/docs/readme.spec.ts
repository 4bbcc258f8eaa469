import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { MODULE_RULES, resolveOptions } from '../../lib/options/resolve-options.js';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { testRedisUrl } from '../support/shared-redis.js';

const root = join(__dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

describe('the README', () => {
  it('has a quick start that works', async () => {
    process.env['REDIS_URL'] = testRedisUrl();
    const { AppModule, StockService } = await import('./quick-start.js');
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    try {
      expect(await app.get(StockService).restock(300, 1)).toBeGreaterThan(1e15);
      const buy = async () => (await fetch(`${await app.getUrl()}/goods/300/buy`, { method: 'POST' })).text();
      expect(await buy()).toBe('true');
      expect(await buy()).toBe('false');
    } finally {
      await app.close();
    }
  });

  it('has unit tests that work', async () => {
    const { byHand, inAModule } = await import('./unit-test.js');
    expect(await inAModule()).toBe(true);
    expect(await byHand()).toBe(false);
  });

  it('has shared locks and permits that work', async () => {
    const { CatalogueService } = await import('./shared-mode.js');
    const catalogue = withLocks(new CatalogueService());
    expect(await Promise.all([catalogue.read('1'), catalogue.replace('1'), catalogue.order('2')])).toEqual([
      'the goods of 1',
      'the goods of 1',
      'ordered from 2',
    ]);
  });

  it('has several locks at once that work', async () => {
    const { AccountsService } = await import('./multi-lock.js');
    const accounts = withLocks(new AccountsService(createTestLocks()));
    const there = Array.from({ length: 5 }, () => accounts.transfer(1, 2, 10));
    const back = Array.from({ length: 3 }, () => accounts.transfer(2, 1, 10));
    await Promise.all([...there, ...back]);
    expect(await accounts.total([2, 3])).toBe(20);
    expect(await accounts.closeAll([1, 2])).toEqual([expect.any(Number), expect.any(Number)]);
    expect(await accounts.total([1, 2])).toBe(0);
  });

  it('has examples of cron jobs and lost locks that can be decorated', async () => {
    const { ReportService } = await import('./cron.js');
    const { InvoiceService } = await import('./lost.js');
    expect(new ReportService()).toHaveProperty('hourly');
    await expect(new InvoiceService().send({ id: '1' })).rejects.toThrow('not made by Nest');
  });

  it('lists every option of the module with its default', () => {
    const row = /^\| `(\w+)`(?: [•◦])? *\| `?([^|`]*?)`? *\|/gm;
    const rows = [...readme.matchAll(row)].map(([, option, value]) => [option, value]);
    const shown = Object.fromEntries(rows) as Record<string, string>;
    expect(new Set(Object.keys(shown))).toEqual(
      new Set([...Object.keys(MODULE_RULES), 'name', 'isGlobal', 'mode', 'permits']),
    );
    const defaults = {
      name: 'default',
      isGlobal: true,
      key: 'none',
      store: 'token()',
      ...resolveOptions(),
      replicas: 'none',
      maxHoldMs: 'Infinity',
      mode: 'exclusive',
      permits: 'none',
    };
    for (const [option, value] of Object.entries(defaults)) expect(shown[option]).toBe(asText(value));
  });

  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, script]) => script);
    expect(named.filter((script) => !(script in scripts))).toEqual([]);
  });

  it('has a performance section made from the results of the benchmarks, and from nothing else', () => {
    const check = (): Buffer => execFileSync(process.execPath, [join(root, 'test/bench/readme.mjs'), '--check']);
    expect(check).not.toThrow();
  });
});
