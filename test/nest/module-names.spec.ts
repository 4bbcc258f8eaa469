import { Injectable, Module } from '@nestjs/common';
import { LazyModuleLoader, NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { getLockServiceToken, Locked, LockConfigError, LockService, memory, RedisLockModule } from 'nestjs-redis-lock';

const options = { store: memory() };
const start = (module: new () => object) =>
  NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });

describe('two modules of one name', () => {
  it.each([
    ['the same options', options, options],
    ['other prefixes', { ...options, prefix: 'a_' }, { ...options, prefix: 'b_' }],
  ])('are refused at the start with %s', async (_what, first, second) => {
    @Module({ imports: [RedisLockModule.forRoot(first)] })
    class Stock {}
    @Module({ imports: [RedisLockModule.forRoot(second), Stock] })
    class AppModule {}
    const started = start(AppModule);
    await expect(started).rejects.toBeInstanceOf(LockConfigError);
    await expect(started).rejects.toThrow(
      "This application imports RedisLockModule twice as 'default'. Two modules make two LockServices",
    );
    await expect(started).rejects.toThrow('Import it once, in AppModule: it is global');
  });

  it('are refused with advice of their own if they are not global', async () => {
    const local = () => RedisLockModule.forRoot({ ...options, isGlobal: false });
    @Module({ imports: [local()] })
    class Stock {}
    @Module({ imports: [local(), Stock] })
    class AppModule {}
    await expect(start(AppModule)).rejects.toThrow('With isGlobal: false, keep what forRoot() returns in one constant');
  });

  it('are refused with advice of their own in a testing module', async () => {
    @Module({ imports: [RedisLockModule.forRoot(options)] })
    class AppModule {}
    const imports = [AppModule, RedisLockModule.forRoot(options)];
    await expect(Test.createTestingModule({ imports }).compile()).rejects.toThrow(
      'In a test, import AppModule or RedisLockModule, not both.',
    );
  });

  it('are refused when the second one is loaded lazily, and the application goes on', async () => {
    @Module({ imports: [RedisLockModule.forRoot(options)] })
    class AppModule {}
    @Module({ imports: [RedisLockModule.forRoot(options)] })
    class Lazy {}
    const app = await start(AppModule);
    await expect(app.get(LazyModuleLoader).load(() => Lazy)).rejects.toBeInstanceOf(LockConfigError);
    expect(await app.get(LockService).using('goods:1', async () => 'sold')).toBe('sold');
    await app.close();
  });
});

describe('one module', () => {
  it('may be imported in many places, and has one service', async () => {
    const locks = RedisLockModule.forRoot({ ...options, isGlobal: false });
    @Injectable()
    class Stock {
      @Locked('goods:<id>', { waitMs: 0 })
      async take(id: number): Promise<string> {
        return `took ${id}`;
      }
    }
    @Module({ imports: [locks], providers: [Stock], exports: [Stock] })
    class StockModule {}
    @Injectable()
    class Orders {
      constructor(private readonly stock: Stock) {}

      @Locked('goods:<id>', { waitMs: 0 })
      async order(id: number): Promise<string> {
        return this.stock.take(id);
      }
    }
    @Module({ imports: [locks, StockModule], providers: [Orders] })
    class AppModule {}
    const app = await start(AppModule);
    expect(await app.get(Orders).order(1)).toBe('took 1');
    await app.close();
  });

  it('stands beside modules with other names', async () => {
    @Module({ imports: [RedisLockModule.forRoot(options), RedisLockModule.forRoot({ ...options, name: 'other' })] })
    class AppModule {}
    const app = await start(AppModule);
    expect(app.get(LockService)).not.toBe(app.get(getLockServiceToken('other')));
    await app.close();
  });

  it('can be started again after its application was closed', async () => {
    @Module({ imports: [RedisLockModule.forRoot(options)] })
    class AppModule {}
    await (await start(AppModule)).close();
    const again = await start(AppModule);
    expect(again.get(LockService)).toBeInstanceOf(LockService);
    await again.close();
  });
});
