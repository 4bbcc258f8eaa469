import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Locked, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';

const open = new AsyncLocalStorage<boolean>();
const inTransaction = (): boolean => open.getStore() === true;
const transaction = <T>(work: () => Promise<T>): Promise<T> => open.run(true, work);

function start(options: RedisLockModuleOptions = { inTransaction }) {
  const warnings: string[] = [];
  Logger.overrideLogger({ log: () => undefined, error: () => undefined, warn: (line: string) => warnings.push(line) });
  const locks = createTestLocks(options);
  return { locks, warnings };
}

class StockService {
  @Locked('goods:<id>')
  sell(id: number): Promise<number> {
    return Promise.resolve(id);
  }
}

const ENDS =
  /^The lock on goods:300 ends in a transaction, at in-transaction\.spec\.ts:\d+:\d+\. .* docs\/transactions\.md\.$/;

describe('a lock that ends in a transaction', () => {
  it('is logged with its place, once for each', async () => {
    const { locks, warnings } = start();
    const sell = (): Promise<boolean> => transaction(async () => (await locks.acquire('goods:300')).release());
    expect([await sell(), await sell()]).toEqual([true, true]);
    expect(warnings).toEqual([expect.stringMatching(ENDS)]);
    await transaction(() => locks.using('goods:300', () => undefined));
    expect(warnings).toHaveLength(2);
  });

  it('is logged with the method that has locked it', async () => {
    const { locks, warnings } = start();
    const stock = withLocks(new StockService(), locks);
    expect(await transaction(() => stock.sell(300))).toBe(300);
    expect(await transaction(() => stock.sell(301))).toBe(301);
    expect(warnings).toEqual([expect.stringContaining('at StockService.sell.')]);
  });

  it('is not logged in the right order, or in a scope around the transaction', async () => {
    const { locks, warnings } = start();
    expect(await locks.using('goods:300', () => transaction(() => Promise.resolve(1)))).toBe(1);
    expect(await locks.scope(() => transaction(() => locks.using('goods:300', () => 2)))).toBe(2);
    expect(warnings).toEqual([]);
  });

  it('is not known if the function throws, which is logged once', async () => {
    const { locks, warnings } = start({
      inTransaction: () => {
        throw new Error('no connection');
      },
    });
    for (const id of [1, 2]) await locks.using(`goods:${id}`, () => undefined);
    expect(warnings).toEqual([expect.stringMatching(/^inTransaction\(\) threw: no connection\./)]);
  });

  it('needs a function', () => {
    expect(() => start({ inTransaction: true as never })).toThrow(
      'inTransaction is true; expected a function that returns a boolean',
    );
  });
});
