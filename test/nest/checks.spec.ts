import {
  Controller,
  Get,
  Injectable,
  type LoggerService,
  Module,
  type ModuleMetadata,
  Param,
  Scope,
  SetMetadata,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  CurrentLock,
  type Lock,
  Locked,
  LockConfigError,
  LockScope,
  LockService,
  memory,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { RedisLockTestingModule } from 'nestjs-redis-lock/testing';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { TRANSACTIONS_ARE_SCOPES } from '../../lib/engine/lock-scope.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, startApp, type TestApp } from './support/app.js';
import { Bound, Copying, Foreign, Proxied } from './support/wrappers.js';

const inMemory = (options: RedisLockModuleOptions = {}) => RedisLockModule.forRoot({ store: memory(), ...options });

const startErrorOf = (setUp: AppSetUp): Promise<unknown> =>
  startApp(setUp).then(
    () => 'started',
    (error: unknown) => error,
  );

afterEach(closeApps);

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

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends CatalogueService {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends CatalogueService {}

/** A store that has exclusive locks only. */
const exclusiveOnly: RedisLockModuleOptions['store'] = (context) => {
  const store = memory()(context);
  return Object.create(store, { capabilities: { value: { ...store.capabilities, modes: ['exclusive'] } } });
};

const START = { redis: testRedisUrl() };

describe('a @Locked method with a mode that its store does not have', () => {
  it.each<[string, RedisLockModuleOptions, string]>([
    ['timestamp()', { ...START, store: timestamp() }, 'timestamp()'],
    ['redisson()', { ...START, store: redisson() }, 'redisson()'],
    ['quorum()', { store: quorum(['redis://a', 'redis://b', 'redis://c']) }, 'quorum()'],
    ['a store with lockDelayMs', { ...START, store: redisson(), lockDelayMs: 10 }, 'redisson()'],
  ])('fails the start: %s', async (_store, locks, name) => {
    const error = await startErrorOf({ locks, providers: [CatalogueService] });
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toBe(
      `@Locked of CatalogueService.read: mode: ${name} does not support shared; use exclusive; leave the option ` +
        'out, or name a module instance whose store can do it, such as token().',
    );
  });

  it('fails the start with an error that names each method once', async () => {
    @Module({ providers: [CatalogueService] })
    class Again {}
    const providers = [CatalogueService];
    const setUp = { locks: { store: exclusiveOnly }, providers, controllers: [SupplierController], imports: [Again] };
    const error = await startErrorOf(setUp);
    const [...methods] = (error as Error).message.matchAll(/@Locked of (\S+):/g);
    expect(methods.map(([, method]) => method).toSorted()).toEqual([
      'CatalogueService.read',
      'SupplierController.order',
    ]);
  });

  it.each([
    ['request-scoped', PerRequest],
    ['transient', Transient],
  ])('fails the start even if its class is %s', async (_kind, type) => {
    expect(await startErrorOf({ locks: { store: exclusiveOnly }, providers: [type] })).toBeInstanceOf(LockConfigError);
  });

  class Reports {
    @Locked('report', { mode: 'shared' })
    async read(): Promise<void> {}

    @Locked('report', { name: 'plain' })
    async write(): Promise<void> {}
  }

  class WrongReports {
    @Locked('report', { name: 'plain', mode: 'shared' })
    async read(): Promise<void> {}
  }

  const lockModules = () => [inMemory(), RedisLockModule.forRoot({ name: 'plain', store: exclusiveOnly })];

  it('is judged by the store of the module instance that it names', async () => {
    const app = await startApp({ lockModules, providers: [Reports] });
    await expect(app.nest.get(Reports).read()).resolves.toBeUndefined();
    const error = await startErrorOf({ lockModules, providers: [WrongReports, CatalogueService] });
    expect((error as Error).message).toMatch(/^@Locked of WrongReports.read: mode:[^\n]*$/);
  });

  it('fails the start of a test with the memory store, too', async () => {
    const imports = [RedisLockTestingModule.forRoot({ store: exclusiveOnly })];
    const failing = await Test.createTestingModule({ imports, providers: [CatalogueService] }).compile();
    await expect(failing.init()).rejects.toThrow(LockConfigError);
    const fine = { imports: [RedisLockTestingModule.forRoot()], providers: [CatalogueService] };
    const started = await (await Test.createTestingModule(fine).compile()).init();
    expect(await started.get(CatalogueService).read('books')).toBe('books');
    await started.close();
  });
});

@Injectable()
class Right {
  @SetMetadata('role', 'buyer')
  @Locked('goods:<id>')
  async marked(id: number): Promise<number> {
    return id;
  }

  @Locked('goods:<id>')
  @Foreign()
  async above(id: number): Promise<number> {
    return id;
  }

  @LockScope()
  @Foreign()
  @Locked('goods:<id>')
  async scoped(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Wrong {
  @Foreign()
  @Locked('goods:<id>')
  async foreign(id: number): Promise<number> {
    return id;
  }

  @Copying()
  @Locked('goods:<id>')
  async copying(id: number): Promise<number> {
    return id;
  }

  @Proxied()
  @Locked('goods:<id>')
  async proxied(id: number): Promise<number> {
    return id;
  }

  @Bound()
  @Locked('goods:<id>')
  async bound(id: number): Promise<number> {
    return id;
  }

  @Foreign()
  @LockScope()
  @Locked('goods:<id>')
  async scopedBelow(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class Inheriting extends Wrong {}

const WRONG = ['foreign', 'copying', 'proxied', 'bound', 'scopedBelow'];

const warningsOf = ({ logged }: TestApp): string[] => logged.filter((line) => line.includes('is above @Locked'));

describe('a @Locked method whose minHoldMs is longer than the maxHoldMs of the module', () => {
  @Injectable()
  class Quota {
    @Locked('quota', { minHoldMs: 10_000 })
    async take(): Promise<void> {}
  }

  it('fails the start, as each call would', async () => {
    const error = await startErrorOf({ locks: { store: memory(), maxHoldMs: 5_000 }, providers: [Quota] });
    expect((error as Error).message).toBe(
      '@Locked of Quota.take: minHoldMs is 10000; expected at most maxHoldMs, which is 5000.',
    );
  });
});

describe('a decorator above @Locked', () => {
  const start = (providers: AppSetUp['providers'], options?: RedisLockModuleOptions) =>
    startApp({ lockModules: () => [inMemory(options)], providers });

  it('is not reported if it keeps the method, stands below, or a scope stands above it', async () => {
    const app = await start([Right]);
    expect(warningsOf(app)).toEqual([]);
  });

  it('is warned of once for each method if it replaces the method', async () => {
    const app = await start([Wrong, Inheriting]);
    const warnings = warningsOf(app);
    expect(warnings.map((line) => /Wrong\.(\w+)/.exec(line)?.[1])).toEqual(WRONG);
    expect(warnings[0]).toMatch(/released before .* ends.*commits.*Put @Locked above.*@LockScope/);
    expect(await app.nest.get(Wrong).foreign(7)).toBe(7);
  });

  it('is ignored with checks: off', async () => {
    const app = await start([Wrong], { checks: 'off' });
    expect(warningsOf(app)).toEqual([]);
  });

  it('fails the start with checks: error, which names all methods', async () => {
    const error: unknown = await start([Wrong], { checks: 'error' }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockConfigError);
    for (const name of WRONG) expect((error as Error).message).toContain(`Wrong.${name}: `);
  });

  it('is not reported if transactions are scopes', async () => {
    Reflect.set(globalThis, TRANSACTIONS_ARE_SCOPES, true);
    try {
      expect(warningsOf(await start([Wrong]))).toEqual([]);
      expect(await start([Wrong], { checks: 'error' })).toBeDefined();
    } finally {
      Reflect.deleteProperty(globalThis, TRANSACTIONS_ARE_SCOPES);
    }
  });

  it('is checked with the options of the instance that the method names', async () => {
    @Injectable()
    class Reports {
      @Foreign()
      @Locked('report:<id>', { name: 'reports' })
      async write(id: number, @CurrentLock() lock?: Lock): Promise<unknown> {
        return [id, lock];
      }
    }
    const lockModules = () => [
      inMemory({ checks: 'off' }),
      RedisLockModule.forRoot({ store: memory(), name: 'reports' }),
    ];
    const app = await startApp({ lockModules, providers: [Wrong, Reports] });
    expect(warningsOf(app)).toEqual([expect.stringContaining('Reports.write')]);
  });
});

/** Replaces every method by the same function. */
function Constant(): MethodDecorator {
  return (_target, _key, descriptor: PropertyDescriptor) => void (descriptor.value = constant);
}
const constant = (): string => 'constant';

describe('a decorator above the @Locked of a handler', () => {
  @Controller()
  class CopiedController {
    @Get('copied/:id')
    @Copying()
    @Locked('goods:<id>')
    async copied(@Param('id') id: string): Promise<string> {
      return id;
    }
  }

  it.each([
    ['a wrapper', Foreign()],
    ['a proxy', Proxied()],
    ['a function that other methods have, too', Constant()],
  ])('fails the start if it does not copy the metadata: %s', async (_what, decorate) => {
    @Controller()
    class GoodsController {
      @Get('buy/:id')
      @decorate
      @Locked('goods:<id>')
      async buy(@Param('id') id: string): Promise<string> {
        return id;
      }
    }
    const setUp = { lockModules: () => [inMemory({ checks: 'off' })], controllers: [GoodsController] };
    const error = await startErrorOf(setUp);
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(
      /^GoodsController\.buy: a decorator above @Locked replaced the handler .*Put @Locked above that decorator\.$/,
    );
  });

  it('is not reported if it copies the metadata, because the lock lasts until the response', async () => {
    const app = await startApp({ lockModules: () => [inMemory()], controllers: [CopiedController] });
    expect(app.logged).toEqual([]);
  });
});

type Decorate = <T>(instance: T) => T;

/** Returns a proxy as the option `instrument` of an application may put it around each provider. */
const bindingProxy =
  (prepare: (original: object, bound: object) => void): Decorate =>
  (instance) => {
    if (typeof instance !== 'object' || instance === null) return instance;
    return new Proxy(instance, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== 'function' || key === 'constructor') return value;
        const bound = value.bind(target) as object;
        prepare(value, bound);
        return bound;
      },
    });
  };

const INSTRUMENTS: Record<string, Decorate> = {
  'without metadata': bindingProxy(() => undefined),
  'with metadata': bindingProxy((original, bound) => {
    for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, original), bound);
    }
  }),
};

describe.each(Object.entries(INSTRUMENTS))('an application whose `instrument` binds methods %s', (_kind, decorate) => {
  const closing: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of closing.splice(0)) await each.close();
  });

  /** Starts an application. Returns it, and the warnings and errors in its log. */
  async function start(metadata: ModuleMetadata) {
    const logged: string[] = [];
    const keep = (message: unknown): void => void logged.push(String(message));
    const logger: LoggerService = { log: () => undefined, warn: keep, error: keep };
    @Module(metadata)
    class AppModule {}
    const app = await NestFactory.create(AppModule, {
      logger,
      abortOnError: false,
      instrument: { instanceDecorator: decorate },
    });
    closing.push(app);
    await app.listen(0, '127.0.0.1');
    return { app, logged };
  }

  @Controller()
  class GoodsController {
    constructor(private readonly locks: LockService) {}

    @Get('buy/:id')
    @Locked('goods:<id>')
    async buy(@Param('id') id: string): Promise<number | undefined> {
      return this.locks.current()?.fencingToken && Number(id);
    }
  }

  it('locks a handler, and warns of nothing', async () => {
    const { app, logged } = await start({ imports: [inMemory()], controllers: [GoodsController] });
    const response = await fetch(`${await app.getUrl()}/buy/7`, { headers: { connection: 'close' } });
    expect(await response.text()).toBe('7');
    expect(logged).toEqual([]);
  });
});
