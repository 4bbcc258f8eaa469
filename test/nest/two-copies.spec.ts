// Two copies of the package in one application, as the ES module beside the CommonJS module, or two installs. Here they
// are two evaluations of the sources. `package.slow.spec.ts` of test/packaging has the packed package.
import { Controller, type DynamicModule, Get, type INestApplication, Param, type Provider } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type LibraryCopy, loadLibraryCopy } from '../support/library-copy.js';

let ours: LibraryCopy;
let theirs: LibraryCopy;
let newer: LibraryCopy;
const apps: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  // One after the other: each isolates its modules.
  ours = await loadLibraryCopy();
  theirs = await loadLibraryCopy();
  newer = await loadLibraryCopy('9.9.9');
}, 60_000);

afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** A service whose decorators and whose injected class come from one copy. */
function goodsOf({ Locked, LockService, LockScope, runInLockScope }: LibraryCopy) {
  class GoodsService {
    constructor(readonly locks: InstanceType<typeof LockService>) {}

    @Locked('goods:<id>', { waitMs: 10_000 })
    async buy(id: number, inside: () => unknown = () => id): Promise<unknown> {
      return inside();
    }

    @LockScope()
    async inScope(inside: () => unknown): Promise<unknown> {
      return inside();
    }

    scope(inside: () => Promise<unknown>): Promise<unknown> {
      return runInLockScope(inside);
    }
  }
  Reflect.defineMetadata('design:paramtypes', [LockService], GoodsService);
  return GoodsService;
}

type Goods = InstanceType<ReturnType<typeof goodsOf>>;

const rootOf = ({ RedisLockModule, memory }: LibraryCopy, name?: string): DynamicModule =>
  RedisLockModule.forRoot({ store: memory(), waitMs: 10_000, ...(name !== undefined && { name }) });

async function start(imports: DynamicModule[], providers: Provider[] = []) {
  const app = await Test.createTestingModule({ imports, providers }).compile();
  apps.push(app);
  return app.init();
}

const outcome = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

describe('two copies of one version', () => {
  it('are two copies', () => {
    expect(theirs.LockService).not.toBe(ours.LockService);
    expect(theirs.LockError).not.toBe(ours.LockError);
  });

  it('the module of one serves the decorators and the injected class of the other', async () => {
    const app = await start(
      [rootOf(ours)],
      [goodsOf(theirs)].map((goods) => ({ provide: 'goods', useClass: goods })),
    );
    const goods = app.get<Goods>('goods');
    expect(await goods.buy(1)).toBe(1);
    expect(goods.locks).toBe(app.get(ours.LockService));
    expect(app.get(theirs.LockService)).toBe(goods.locks);
  });

  it('a method of one nests in the lock of the other, in both directions', async () => {
    const [Ours, Theirs] = [goodsOf(ours), goodsOf(theirs)];
    const app = await start(
      [rootOf(ours)],
      [
        { provide: 'ours', useClass: Ours },
        { provide: 'theirs', useClass: Theirs },
      ],
    );
    const [a, b] = [app.get<Goods>('ours'), app.get<Goods>('theirs')];
    expect(await a.buy(1, () => b.buy(1))).toBe(1);
    expect(await b.buy(1, () => a.buy(1, () => b.locks.current('goods:1')?.resource))).toBe('goods:1');
    expect(await a.locks.using('goods:1', () => b.buy(1))).toBe(1);
  });

  it('a lock scope of one keeps the locks of the other', async () => {
    const app = await start([rootOf(ours)], [{ provide: 'goods', useClass: goodsOf(theirs) }]);
    const goods = app.get<Goods>('goods');
    const locks = app.get(ours.LockService);
    const inside = async (): Promise<unknown> => {
      await locks.using('goods:1', () => undefined);
      return (await locks.inspect('goods:1')) !== null;
    };
    expect(await goods.scope(inside)).toBe(true);
    expect(await goods.inScope(inside)).toBe(true);
    expect(await locks.inspect('goods:1')).toBeNull();
  });

  it('bindLocks() of one takes the service of the other', async () => {
    const app = await start([rootOf(ours)]);
    const locks = app.get(ours.LockService);
    const goods = new (goodsOf(theirs))(locks);
    theirs.bindLocks(goods, locks);
    expect(await locks.using('goods:1', () => goods.buy(1))).toBe(1);
    expect(await goods.buy(1, () => locks.using('goods:1', () => 2))).toBe(2);
  });

  it('withMemoryLocks() of one replaces the store of the other', async () => {
    const { RedisLockModule, LockService } = ours;
    const builder = Test.createTestingModule({ imports: [RedisLockModule.forRoot({ redis: 'redis://127.0.0.1:1' })] });
    const app = await theirs.testing.withMemoryLocks(builder).compile();
    apps.push(app);
    const lock = await app.get(LockService).acquire('goods:1');
    expect(await lock.release()).toBe(true);
  });

  it('a handler of one is answered by the options of the other', async () => {
    const { Locked } = theirs;
    @Controller()
    class GoodsController {
      entered = 0;

      @Get(':id')
      @Locked('goods:<id>', { waitMs: 0 })
      async buy(@Param('id') id: string): Promise<string> {
        this.entered += 1;
        return id;
      }
    }
    const options = { store: ours.memory(), http: { status: { LOCK_TIMEOUT: 418 } } };
    const module = await Test.createTestingModule({
      imports: [ours.RedisLockModule.forRoot(options)],
      controllers: [GoodsController],
    }).compile();
    const app: INestApplication = module.createNestApplication();
    apps.push(app);
    await app.listen(0, '127.0.0.1');
    const url = `${await app.getUrl()}/1`;
    const statusOf = async (): Promise<number> => (await fetch(url, { headers: { connection: 'close' } })).status;
    expect(await statusOf()).toBe(200);
    expect(await app.get(ours.LockService).using('goods:1', statusOf)).toBe(418);
    expect(app.get(GoodsController).entered).toBe(1);
  });

  it('modules of both by one name are an error that names both copies', async () => {
    const error = await outcome(start([rootOf(ours), rootOf(theirs)]));
    expect(error).toBeInstanceOf(ours.LockConfigError);
    expect(String(error)).toMatch(/the RedisLockModule 'default' of two copies of nestjs-redis-lock 0\.1\.0: /);
  });

  it('modules of both by two names are two module instances', async () => {
    const app = await start([rootOf(ours), rootOf(theirs, 'other')]);
    const other = app.get<InstanceType<typeof ours.LockService>>(ours.getLockServiceToken('other'));
    expect(other).not.toBe(app.get(ours.LockService));
    expect(await other.using('goods:1', () => 1)).toBe(1);
  });
});

describe('two versions', () => {
  const named = /^LockConfigError: Two versions of nestjs-redis-lock cannot work together .*9\.9\.9 in .*npm dedupe/;

  it('a class that injects the other LockService is an error that names both', async () => {
    const error = await outcome(start([rootOf(ours)], [{ provide: 'goods', useClass: goodsOf(newer) }]));
    expect(String(error)).toMatch(named);
    expect(String(error)).toContain('0.1.0 in ');
  });

  it('modules of both in one application are an error that names both', async () => {
    expect(String(await outcome(start([rootOf(ours), rootOf(newer, 'other')])))).toMatch(named);
  });

  it('a service of the other is refused by bindLocks() and at the call', async () => {
    const locks = newer.testing.createTestLocks();
    expect(() => ours.bindLocks({}, locks)).toThrow(/^Two versions of nestjs-redis-lock cannot work together/);
    const goods = new (goodsOf(ours))(locks);
    Object.defineProperty(goods, Symbol.for('nestjs-redis-lock:service:default'), { value: locks });
    expect(String(await outcome(goods.buy(1)))).toMatch(named);
  });

  it('work independently in two applications, even if only one of them is loaded', async () => {
    const apart = [await start([rootOf(ours)]), await start([rootOf(newer)])];
    expect(await apart[0].get(ours.LockService).using('goods:1', () => 1)).toBe(1);
    expect(await apart[1].get(newer.LockService).using('goods:1', () => 2)).toBe(2);
  });
});
