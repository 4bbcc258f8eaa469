import { type CanActivate, Controller, Get, Injectable, Module, Param, Scope, UseGuards } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Locked,
  LockConfigError,
  LockService,
  memory,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { Test } from '@nestjs/testing';
import { testRedisUrl } from '../support/shared-redis.js';
import { closeApps, startApp } from './support/app.js';

@Injectable()
class CatalogueService {
  constructor(readonly locks: LockService) {}

  @Locked('catalogue:<shop>', { mode: 'shared' })
  async read(shop: string): Promise<string> {
    return shop;
  }

  @Locked('catalogue:<shop>')
  async replace(shop: string): Promise<string> {
    return shop;
  }
}

@Controller()
class SupplierController {
  @Get('order/:name')
  @Locked('supplier:<name>', { permits: 5 })
  async order(@Param('name') name: string): Promise<string> {
    return name;
  }
}

@Injectable()
class Plain {
  @Locked('catalogue:<shop>', { mode: 'exclusive' })
  async replace(shop: string): Promise<string> {
    return shop;
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends CatalogueService {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends CatalogueService {}

@Injectable()
class Guard implements CanActivate {
  @Locked('gate', { mode: 'shared' })
  async canActivate(): Promise<boolean> {
    return true;
  }
}

@Controller()
class GuardedController {
  @Get('guarded')
  @UseGuards(Guard)
  guarded(): string {
    return 'in';
  }
}

afterEach(closeApps);

/** A store that has exclusive locks only. */
const exclusiveOnly: RedisLockModuleOptions['store'] = (context) => {
  const store = memory()(context);
  return Object.create(store, { capabilities: { value: { ...store.capabilities, modes: ['exclusive'] } } });
};

const startErrorOf = (starting: Promise<unknown>): Promise<unknown> =>
  starting.then(
    () => 'started',
    (error: unknown) => error,
  );

const START = { redis: testRedisUrl() };

describe('an application does not start', () => {
  it.each<[string, RedisLockModuleOptions, string]>([
    ['timestamp()', { ...START, store: timestamp() }, 'timestamp()'],
    ['redisson()', { ...START, store: redisson() }, 'redisson()'],
    ['quorum()', { store: quorum(['redis://a', 'redis://b', 'redis://c']) }, 'quorum()'],
    ['a store with lockDelayMs', { ...START, store: redisson(), lockDelayMs: 10 }, 'redisson()'],
  ])('with shared locks on a store without them: %s', async (_store, locks, name) => {
    const error = await startErrorOf(startApp({ locks, providers: [CatalogueService] }));
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toBe(
      `@Locked of CatalogueService.read: mode: ${name} does not support shared; use exclusive.\n` +
        'Leave the option out, or lock with a module instance whose store can do it, such as token().',
    );
  });

  it('with an error that names each method once', async () => {
    @Module({ providers: [CatalogueService] })
    class Again {}
    const providers = [CatalogueService];
    const setUp = { locks: { store: exclusiveOnly }, providers, controllers: [SupplierController], imports: [Again] };
    const error = await startErrorOf(startApp(setUp));
    const [...methods] = (error as Error).message.matchAll(/@Locked of (\S+):/g);
    expect(methods.map(([, method]) => method).toSorted()).toEqual([
      'CatalogueService.read',
      'SupplierController.order',
    ]);
  });

  it.each([
    ['request-scoped', { providers: [PerRequest] }],
    ['transient', { providers: [Transient] }],
    ['a guard', { controllers: [GuardedController] }],
  ])('if a class with such a method is %s', async (_kind, setUp) => {
    expect(await startErrorOf(startApp({ locks: { store: exclusiveOnly }, ...setUp }))).toBeInstanceOf(LockConfigError);
  });

  it('if the named instance does not have the mode', async () => {
    class Reports {
      @Locked('report', { name: 'plain', mode: 'shared' })
      async read(): Promise<void> {}
    }
    const lockModules = () => [
      RedisLockModule.forRoot({ store: memory() }),
      RedisLockModule.forRoot({ name: 'plain', store: exclusiveOnly }),
    ];
    const error = await startErrorOf(startApp({ lockModules, providers: [Reports, CatalogueService] }));
    expect((error as Error).message).toMatch(/^@Locked of Reports.read: mode:[^\n]*\nLeave/);
  });
});

describe('an application starts', () => {
  it('if no @Locked has an unsupported mode, and a call with one is refused', async () => {
    const app = await startApp({ locks: { ...START, store: redisson() }, providers: [Plain] });
    expect(await app.nest.get(Plain).replace('books')).toBe('books');
    await expect(app.locks.acquire('catalogue:books', { permits: 2 })).rejects.toThrow(
      'permits: redisson() does not support permits; use exclusive.',
    );
  });

  it('if each method of a class uses an instance that has its mode', async () => {
    class Reports {
      @Locked('report', { mode: 'shared' })
      async read(): Promise<void> {}

      @Locked('report', { name: 'plain' })
      async write(): Promise<void> {}
    }
    const lockModules = () => [
      RedisLockModule.forRoot({ store: memory() }),
      RedisLockModule.forRoot({ name: 'plain', store: exclusiveOnly }),
    ];
    const app = await startApp({ lockModules, providers: [Reports] });
    await expect(app.nest.get(Reports).read()).resolves.toBeUndefined();
  });

  it.each([true, false])(
    'if a module imports its own instance that has the mode, beside a global one: %p',
    async (isGlobal) => {
      const own = RedisLockModule.forRoot({ store: memory(), isGlobal: false });
      @Module({ imports: [own], providers: [CatalogueService], exports: [CatalogueService] })
      class CatalogueModule {}
      const lockModules = () => [RedisLockModule.forRoot({ store: exclusiveOnly, isGlobal })];
      const app = await startApp({ lockModules, imports: [CatalogueModule], providers: [Plain] });
      expect(await app.nest.get(CatalogueService).read('books')).toBe('books');
    },
  );

  it('in a test with the memory store', async () => {
    const imports = [RedisLockTestingModule.forRoot({ store: exclusiveOnly })];
    const failing = await Test.createTestingModule({ imports, providers: [CatalogueService] }).compile();
    await expect(failing.init()).rejects.toThrow(LockConfigError);
    const fine = { imports: [RedisLockTestingModule.forRoot()], providers: [CatalogueService] };
    const started = await (await Test.createTestingModule(fine).compile()).init();
    expect(await started.get(CatalogueService).read('books')).toBe('books');
    await started.close();
  });
});
