// What people write by mistake, and the errors that say so.
import { Controller, Get, Module, type ModuleMetadata, Param } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  Locked,
  LockKeyError,
  LockScope,
  memory,
  RedisLockModule,
  resource,
  WhileLeader,
} from 'nestjs-redis-lock';
import { createTestLocks, withLocks } from 'nestjs-redis-lock/testing';
import { Observable } from 'rxjs';
import { closeApps, startApp } from './support/app.js';

// oxlint-disable-next-line no-explicit-any -- code without types can call a decorator in any way
type Untyped = any;

/** Returns what loads a class whose method `buy(id, cart)` locks by the template. */
const load = (template: string) => (): unknown => {
  class Shop {
    @Locked(template)
    async buy(id: number, cart: number): Promise<number> {
      return id + cart;
    }
  }
  return Shop;
};

afterEach(closeApps);

describe('a decorator without parentheses', () => {
  it.each([
    ['@Locked', Locked, "write @Locked('goods:<id>')"],
    ['@LockScope', LockScope, 'write @LockScope()'],
    ['@WhileLeader', WhileLeader, "write @WhileLeader('report')"],
  ])('%s is refused when the class is loaded', (name, decorator: Untyped, advice) => {
    const loadShop = (): unknown => {
      class Shop {
        @decorator
        async buy(): Promise<void> {}
      }
      return Shop;
    };
    expect(loadShop).toThrow(new LockConfigError(`Shop.buy: ${name} is written without parentheses; ${advice}.`));
  });

  it('is refused on a static method and as a standard decorator', () => {
    const decorator = Locked as Untyped;
    class Shop {
      readonly goods = [];
    }
    expect(() => decorator(Shop, 'buy', {})).toThrow('Shop.buy: @Locked is written without parentheses');
    expect(() => decorator(() => undefined, { kind: 'method', name: 'buy' })).toThrow(
      'buy: @Locked is written without parentheses',
    );
  });
});

describe('a method that returns no promise', () => {
  class Shop {
    sold = 0;

    // @ts-expect-error -- a method under a lock returns a promise or an Observable
    @Locked('goods:<id>', { waitMs: 0 })
    sell(id: number): number {
      this.sold += 1;
      return id;
    }
  }

  it('rejects, and its lock is released', async () => {
    const locks = createTestLocks();
    await expect(withLocks(new Shop(), locks).sell(1) as unknown).rejects.toThrow(
      'Shop.sell is @Locked and returned a value of type number, not a promise. Its callers get a promise',
    );
    expect(await locks.inspect('goods:1')).toBeNull();
  });

  it('does not end the process if it returns nothing and its caller does not await it', async () => {
    class Forgetful extends Shop {
      // @ts-expect-error -- a method under a lock returns a promise or an Observable
      @Locked('goods:<id>', { waitMs: 0 })
      forget(id: number): void {
        this.sold += id;
      }
    }
    const unhandled: unknown[] = [];
    const listener = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', listener);
    const shop = withLocks(new Forgetful(), createTestLocks());
    shop.forget(1);
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', listener);
    expect({ unhandled, sold: shop.sold }).toEqual({ unhandled: [], sold: 1 });
  });

  it('may be a handler, because Nest awaits its result', async () => {
    @Controller('goods')
    class Goods {
      @Get(':id')
      // @ts-expect-error -- a method under a lock returns a promise or an Observable
      @Locked('goods:<id>')
      show(@Param('id') id: string): string {
        return `goods ${id}`;
      }
    }
    const app = await startApp({ controllers: [Goods] });
    expect((await app.call('/goods/7')).text).toBe('goods 7');
  });
});

describe('work that would run after the lock has ended', () => {
  const locks = createTestLocks();
  const later = (): Observable<number> => new Observable((subscriber) => subscriber.next(1));
  const rows = async function* (): AsyncGenerator<number> {
    yield 1;
  };

  class Export {
    @Locked('export')
    async rows(): Promise<AsyncGenerator<number>> {
      return rows();
    }
  }

  it.each<[string, () => Promise<unknown>, string]>([
    ['using() with an Observable', () => locks.using('goods:1', later), 'lastValueFrom'],
    ['using() with a generator', () => locks.using('goods:1', rows), 'which runs when somebody loops over it'],
    ['using() with onceMs', () => locks.using('goods:1', { onceMs: 60_000 }, later), 'lastValueFrom'],
    ['wrap()', () => locks.wrap(() => 'goods:1', later)(), 'lastValueFrom'],
    ['a lock scope', () => locks.scope(rows), 'which runs when somebody loops over it'],
    ['@Locked', () => withLocks(new Export(), locks).rows(), 'which runs when somebody loops over it'],
  ])('is refused: %s', async (_how, call, advice) => {
    await expect(call()).rejects.toThrow(LockConfigError);
    await expect(call()).rejects.toThrow(advice);
    expect(await locks.inspect('goods:1')).toBeNull();
  });
});

describe('what looks like a placeholder', () => {
  it.each([
    ['goods:{id}', '{id}', '<id>'],
    ['goods::id', ':id', '<id>'],
    ['goods/:id', ':id', '<id>'],
    ['goods:#{id}', '#{id}', '<id>'],
    ['goods:{id.name}', '{id.name}', '<id.name>'],
    ['goods:{id}:<cart>', '{id}', '<id>'],
  ])('%s is refused when the class is loaded', (template, found, advice) => {
    expect(load(template)).toThrow(LockKeyError);
    expect(load(template)).toThrow(
      `Shop.buy: '${found}' in '${template}' is fixed text, so all calls would share one lock; write ${advice}.`,
    );
  });

  it.each(['{cart}:<cart>', '{id}:<0>', 'shop:id', 'shop:cart:<cart>', 'goods:{all}', 'a::b', '{id<id>}'])(
    '%s is a template',
    (template) => {
      expect(load(template)).not.toThrow();
    },
  );
});

describe('a value that was forgotten', () => {
  const locks = createTestLocks();

  it.each([
    'goods:<id>',
    'goods:undefined',
    'goods:null',
    'goods:NaN',
    'goods:[object Object]',
    'null:goods',
    '{null}:1',
  ])('%s is refused by the service', async (name) => {
    for (const call of [
      () => locks.acquire(name),
      () => locks.tryAcquire(name),
      () => locks.using(name, async () => undefined),
      () => locks.acquire([name, 'goods:1']),
      () => locks.inspect(name),
      async () => locks.lead(name),
      async () => locks.assertHeld(name),
    ]) {
      await expect(call()).rejects.toThrow(LockKeyError);
      await expect(call()).rejects.toThrow('resource`goods:${id}`');
    }
  });

  it.each(['goods:null', 'undefined:<id>', 'goods:NaN:<id>', 'goods/undefined', 'null/<id>'])(
    '%s is refused as a template',
    (template) => expect(load(template)).toThrow(LockKeyError),
  );

  it.each(['nullable:1', 'goods:nullify', 'goods:1:undefined-behaviour', 'NaN1', 'user-null'])(
    '%s is a resource',
    async (name) => {
      await expect(locks.using(name, async () => 'done')).resolves.toBe('done');
    },
  );

  it('differs from a person called Null, whose name is encoded', async () => {
    class People {
      @Locked('person:<0>')
      async greet(_name: string): Promise<string | undefined> {
        return locks.current()?.resource;
      }
    }
    const people = withLocks(new People(), locks);
    for (const name of ['null', 'undefined', 'NaN', '[object Object]']) {
      expect(await people.greet(name)).toBe(resource`person:${name}`);
      expect(resource`person:${name}`).not.toBe(`person:${name}`);
    }
    expect(resource`person:${'Null'}`).toBe('person:Null');
  });
});

describe('a module that is not imported', () => {
  const advice = 'import RedisLockModule.forRoot() in AppModule';

  class Shop {
    @Locked('goods')
    async buy(): Promise<void> {}
  }
  class Orders {
    @Locked('order', { name: 'orders' })
    async pay(): Promise<void> {}
  }
  class Reports {
    @WhileLeader('report')
    async run(): Promise<void> {}
  }
  @Module({ imports: [RedisLockModule] })
  class Bare {}
  const imports = [RedisLockModule.forRoot({ store: memory() })];

  it.each<[string, ModuleMetadata, string]>([
    ['of @Locked', { providers: [Shop] }, `Shop.*${advice}, or RedisLockTestingModule.forRoot() in a unit test`],
    ['of @WhileLeader', { providers: [Reports] }, `Reports.*${advice}`],
    ['without forRoot()', { imports: [RedisLockModule] }, `RedisLockModule.*${advice}`],
    [
      'without forRoot() in one of the modules',
      { imports: [...imports, Bare] },
      `RedisLockModule.*${advice}, and no bare RedisLockModule elsewhere`,
    ],
    [
      'of a named instance',
      { imports, providers: [Orders] },
      "Orders.*import RedisLockModule.forRoot({ name: 'orders' }) in AppModule",
    ],
  ])("is named in Nest's own error: %s", async (_what, metadata, expected) => {
    @Module(metadata)
    class AppModule {}
    const pattern = new RegExp(expected.replaceAll(/[(){}]/g, String.raw`\$&`));
    const starting = NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
    await expect(starting).rejects.toThrow(pattern);
  });
});

describe('a parameter with a default value', () => {
  it('is refused when the class is loaded', () => {
    const byName = (): unknown => {
      class Parts {
        @Locked('part:<id>:<region>')
        async find(id: number, region = 'eu'): Promise<string> {
          return region + id;
        }
      }
      return Parts;
    };
    const ofObject = (): unknown => {
      class Pages {
        @Locked('page:<query.page>')
        async show(query: { page?: string } = {}): Promise<object> {
          return query;
        }
      }
      return Pages;
    };
    for (const decorate of [byName, ofObject]) {
      expect(decorate).toThrow(LockKeyError);
      expect(decorate).toThrow('names a parameter with a default value, which @Locked does not see');
    }
  });

  it('may stand beside the parameters of the template, and in a key function', async () => {
    const locks = createTestLocks();
    class Parts {
      @Locked('part:<id>')
      async find(id: number, region = 'eu'): Promise<string> {
        return `${id} ${region}`;
      }

      @Locked((id: number, region = 'eu') => resource`part:${id}:${region}`)
      async count(_id: number, _region = 'eu'): Promise<string | undefined> {
        return locks.current()?.resource;
      }
    }
    const parts = withLocks(new Parts(), locks);
    expect(await parts.find(1)).toBe('1 eu');
    expect(await parts.count(1)).toBe('part:1:eu');
  });
});

describe('an object in place of its id', () => {
  class ObjectId {
    readonly id = Buffer.from('65f0', 'hex');

    toString(): string {
      return this.id.toString('hex');
    }
  }
  class Users {
    @Locked('user:<id>')
    async rename(id: unknown): Promise<unknown> {
      return id;
    }
  }

  it.each([
    ['an ObjectId', new ObjectId(), '(id) => resource`user:${String(id)}`'],
    ['a Date', new Date(0), '(id) => resource`user:${String(id)}`'],
    ['a plain object', { id: 1 }, '<user.id>'],
  ])('is refused with advice for %s', async (_what, value, advice) => {
    await expect(withLocks(new Users(), createTestLocks()).rename(value)).rejects.toThrow(advice);
  });
});

describe('a decorated base class', () => {
  const locks = createTestLocks();
  const locked = async (..._parameters: unknown[]) => locks.current()?.resource;

  abstract class Crud {
    abstract readonly table: string;

    @Locked('row:<id>')
    save(id: number) {
      return locked(id);
    }

    @Locked(function (this: Crud, id: number) {
      return resource`${this.table}:${id}`;
    })
    remove(id: number) {
      return locked(id);
    }
  }
  class Users extends Crud {
    readonly table = 'users';
  }
  class Orders extends Crud {
    readonly table = 'orders';
  }

  it('has one lock for all subclasses by its template, and one for each by a function that reads `this`', async () => {
    const [users, orders] = [withLocks(new Users(), locks), withLocks(new Orders(), locks)];
    expect([await users.save(1), await orders.save(1)]).toEqual(['row:1', 'row:1']);
    expect([await users.remove(1), await orders.remove(1)]).toEqual(['users:1', 'orders:1']);
  });
});
