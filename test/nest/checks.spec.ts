import { Injectable, Module, Scope, SetMetadata } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Locked,
  LockConfigError,
  LockScope,
  memory,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-redis-lock';
import { quorum } from 'nestjs-redis-lock/quorum';
import { redisson } from 'nestjs-redis-lock/redisson';
import { timestamp } from 'nestjs-redis-lock/timestamp';
import { TRANSACTIONS_ARE_SCOPES } from '../../lib/engine/lock-scope.js';
import { testRedisUrl } from '../support/shared-redis.js';
import { type AppSetUp, closeApps, startApp, type TestApp } from './support/app.js';
import { goodsController, type Work } from './support/goods-controller.js';
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
  @Locked('catalogue', { mode: 'shared' })
  async read(): Promise<void> {}

  @Locked('catalogue')
  async replace(): Promise<void> {}
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
    const controllers = [goodsController([Locked('goods:<id>', { permits: 5 })])];
    const setUp = { locks: { store: exclusiveOnly }, providers, controllers, imports: [Again] };
    const error = await startErrorOf(setUp);
    const [...methods] = (error as Error).message.matchAll(/@Locked of (\S+):/g);
    expect(methods.map(([, method]) => method).toSorted()).toEqual(['CatalogueService.read', 'GoodsController.buy']);
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
});

@Injectable()
class Right {
  @SetMetadata('role', 'buyer')
  @Locked('goods')
  async marked(): Promise<void> {}

  @Locked('goods')
  @Foreign()
  async above(): Promise<void> {}

  @LockScope()
  @Foreign()
  @Locked('goods')
  async scoped(): Promise<void> {}
}

@Injectable()
class Wrong {
  @Foreign()
  @Locked('goods:<id>')
  async foreign(id: number): Promise<number> {
    return id;
  }

  @Copying()
  @Locked('goods')
  async copying(): Promise<void> {}

  @Proxied()
  @Locked('goods')
  async proxied(): Promise<void> {}

  @Bound()
  @Locked('goods')
  async bound(): Promise<void> {}

  @Foreign()
  @LockScope()
  @Locked('goods')
  async scopedBelow(): Promise<void> {}
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
      @Locked('report', { name: 'reports' })
      async write(): Promise<void> {}
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
  it.each([
    ['a wrapper', Foreign()],
    ['a proxy', Proxied()],
    ['a function that other methods have, too', Constant()],
  ])('fails the start if it does not copy the metadata: %s', async (_what, decorator) => {
    const controllers = [goodsController([decorator, Locked('goods:<id>')])];
    const error = await startErrorOf({ lockModules: () => [inMemory({ checks: 'off' })], controllers });
    expect(error).toBeInstanceOf(LockConfigError);
    expect((error as Error).message).toMatch(
      /^GoodsController\.buy: a decorator above @Locked replaced the handler .*Put @Locked above that decorator\.$/,
    );
  });

  it('is not reported if it copies the metadata, because the lock lasts until the response', async () => {
    const controllers = [goodsController([Copying(), Locked('goods:<id>')])];
    expect((await startApp({ lockModules: () => [inMemory()], controllers })).logged).toEqual([]);
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

it.each(Object.entries(INSTRUMENTS))(
  'an application whose `instrument` binds methods %s locks a handler, and warns of nothing',
  async (_kind, instanceDecorator) => {
    const tokens: unknown[] = [];
    const work: Work = ({ locks }) => void tokens.push(locks.current()?.fencingToken);
    const controllers = [goodsController([Locked('goods:<id>')], work)];
    const app = await startApp({ lockModules: () => [inMemory()], controllers, instrument: { instanceDecorator } });
    expect((await app.call('/goods/7')).status).toBe(200);
    expect([tokens, app.logged]).toEqual([[expect.any(Number)], []]);
  },
);
