// What the page Troubleshooting says, one test for each line that other specs of the docs do not run.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Injectable, type Type } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { InjectLockService, Locked, LockService, RedisLockModule } from 'nestjs-redis-lock';
import { createTestLocks, RedisLockTestingModule, withLocks } from 'nestjs-redis-lock/testing';
import { redisson } from 'nestjs-redis-lock/redisson';
import { unavailableBecause } from '../../lib/redis/redis-errors.js';
import { page, root, sectionOf } from '../support/pages.js';
import { testRedisUrl } from '../support/shared-redis.js';

const text = ['docs/troubleshooting.md', 'docs/redis-down.md'].map((path) => page(path).text).join('\n');

/** The texts in code of the bold parts, which stand for what users see. `…` stands for any text. */
const shown = [...text.matchAll(/^- \*\*([^*]+)\*\*/gm)].flatMap(([, bold = '']) =>
  [...bold.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code.replaceAll(/\s+/g, ' ')),
);

/** Matches a text of the page. Fails if the page does not show it. */
function shownAs(code: string): RegExp {
  expect(shown).toContain(code);
  const parts = code.split('…').map((part) => part.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(parts.join('[^]*'));
}

/** Runs a call and returns its error. */
async function failureOf(call: () => unknown): Promise<Error> {
  try {
    await call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('The call did not fail.');
}

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const app of open.splice(0)) await app.close();
});

/** Returns the code of the library, in which `…` stands for the values in a text. */
function linesOfLib(): readonly string[] {
  const files = (readdirSync(join(root, 'lib'), { recursive: true }) as string[]).filter((path) =>
    path.endsWith('.ts'),
  );
  const code = files.map((path) => readFileSync(join(root, 'lib', path), 'utf8')).join('\n');
  return code.replaceAll(/\$\{[^{}]*\}/g, '…').split('\n');
}

it('the log lines are texts of the library', () => {
  const section = sectionOf('docs/troubleshooting.md', 'Log lines');
  const rows = [...section.matchAll(/^(?:\||- \*\*) ?`([^`]+)`/gm)].map(([, line = '']) => line);
  expect(rows.length).toBeGreaterThan(10);
  const code = linesOfLib();
  const known = (line: string): boolean => {
    const parts = line.split('…').map((part) => part.trim());
    return code.some((each) => parts.every((part) => each.includes(part)));
  };
  expect(rows.filter((line) => !known(line))).toEqual([]);
});

type TestingModuleOptions = NonNullable<Parameters<typeof RedisLockTestingModule.forRoot>[0]>;

async function startWith(provider: Type, options: TestingModuleOptions = {}): Promise<void> {
  const imports = [RedisLockTestingModule.forRoot(options)];
  const module = await Test.createTestingModule({ imports, providers: [provider] }).compile();
  open.push(module);
  await module.init();
}

/** Replaces a method by one that calls it, as decorators for transactions do. */
function Wrapped(_target: object, _key: string, descriptor: PropertyDescriptor): PropertyDescriptor {
  const { value } = descriptor as { value: (...args: unknown[]) => unknown };
  return { ...descriptor, value: (...args: unknown[]) => value(...args) };
}

class Goods {
  @Locked('goods:<id>')
  async buy(id: number): Promise<number> {
    return id;
  }
}

describe('an application that does not start', () => {
  it('has a placeholder that names no parameter', async () => {
    const error = await failureOf(() => {
      class Misspelled {
        @Locked('goods:<it>')
        async buy(id: number): Promise<number> {
          return id;
        }
      }
      return Misspelled;
    });
    expect(error).toMatchObject({ code: 'LOCK_KEY' });
    expect(error.message).toMatch(shownAs('… names no parameter'));
  });

  it('has a mode that its store does not have', async () => {
    class Shared {
      @Locked('goods:<id>', { mode: 'shared' })
      async read(id: number): Promise<number> {
        return id;
      }
    }
    class Permits {
      @Locked('goods:<id>', { permits: 2 })
      async read(id: number): Promise<number> {
        return id;
      }
    }
    const options: TestingModuleOptions = { store: redisson(), redis: testRedisUrl() };
    expect((await failureOf(() => startWith(Permits, options))).message).toMatch(shownAs('… does not support permits'));
    expect((await failureOf(() => startWith(Shared, options))).message).toMatch(shownAs('… shared'));
  });

  it('has a decorator above @Locked, or a synchronous method, which fails at its call', async () => {
    class Synchronous {
      // @ts-expect-error -- a method under a lock returns a promise or an Observable
      @Locked('goods:<id>')
      buy(id: number): boolean {
        return id > 0;
      }
    }
    class Decorated {
      @Wrapped
      @Locked('goods:<id>')
      async buy(id: number): Promise<number> {
        return id;
      }
    }
    const failure = await failureOf(async () => withLocks(new Synchronous()).buy(1));
    expect(failure.message).toMatch(shownAs('… returned …, not a promise'));
    expect((await failureOf(() => startWith(Decorated, { checks: 'error' }))).message).toMatch(
      shownAs('another decorator is above @Locked'),
    );
    await startWith(Decorated);
  });

  it('has no LockService: without the module, without isGlobal, or with a name', async () => {
    @Injectable()
    class Orders {
      constructor(readonly locks: LockService) {}
    }
    @Injectable()
    class Named {
      constructor(@InjectLockService('orders') readonly locks: LockService) {}
    }
    class Feature {
      readonly name = 'feature';
    }
    const start = async (provider: Type, options?: TestingModuleOptions) => {
      const imports = options === undefined ? [] : [RedisLockTestingModule.forRoot(options)];
      const feature = { module: Feature, providers: [provider] };
      const module = await Test.createTestingModule({ imports: [...imports, feature] }).compile();
      open.push(module);
    };
    for (const options of [undefined, { isGlobal: false }, { name: 'orders' }]) {
      const error = await failureOf(() => start(Orders, options));
      expect(error.message).toMatch(/can't resolve dependencies of the Orders/);
    }
    await start(Orders, {});
    await start(Named, { name: 'orders' });
    const unlocked = await failureOf(() => start(Goods));
    expect(unlocked.message).toMatch(shownAs('Symbol(nestjs-redis-lock:LockService, …)'));
    const bare = await failureOf(() => Test.createTestingModule({ imports: [RedisLockModule] }).compile());
    expect(bare.message).toMatch(shownAs('Symbol(nestjs-redis-lock:runtime, …)'));
  });
});

describe('errors', () => {
  it('name a full queue, an upgrade and different permits', async () => {
    const locks = createTestLocks();
    const none = async () => undefined;
    const permit = await locks.acquire('goods:1', { permits: 3 });
    const mismatch = await failureOf(() => locks.acquire('goods:1', { permits: 2 }));
    expect(mismatch).toMatchObject({ name: 'LockConfigError' });
    expect(mismatch.message).toMatch(shownAs('… the same number …'));
    await permit.release();
    await locks.using('goods:1', { mode: 'shared' }, async () => {
      const error = await failureOf(() => locks.using('goods:1', none));
      expect(error).toMatchObject({ name: 'LockReentryError' });
      expect(error.message).toMatch(shownAs('… which does not cover …'));
    });
    const held = await locks.acquire('goods:1');
    const waiting = locks.using('goods:1', { maxWaiting: 1 }, none);
    const error = await failureOf(() => locks.using('goods:1', { maxWaiting: 1 }, none));
    expect(error).toMatchObject({ name: 'LockTimeoutError', isQueueFull: true });
    expect(error.message).toMatch(shownAs('… too many callers wait …'));
    await held.release();
    await waiting;
  });

  it('of Redis have a • if they are permanent', () => {
    const lines = sectionOf('docs/redis-down.md', 'Redis error codes').match(/^- .*/gm) ?? [];
    const marked = lines.flatMap((line) =>
      [...line.matchAll(/`… ([A-Z]+) …`/g)].map(([, code = '']) => [code, line.includes('•')] as const),
    );
    expect(marked.length).toBeGreaterThan(10);
    for (const [code, permanent] of marked) {
      const error = unavailableBecause(new Error(`${code} as Redis says.`), 'a lock');
      expect([code, error.permanent]).toEqual([code, permanent]);
    }
    const replica = unavailableBecause(new Error("READONLY You can't write against a read only replica."), 'a lock');
    expect(replica.message).toMatch(shownAs('… READONLY …'));
  });

  it('name an object that Nest did not make, and a mock in place of the service', async () => {
    expect((await failureOf(() => new Goods().buy(1))).message).toMatch(shownAs('… has no lock service'));
    const imports = [RedisLockModule.forRoot({ redis: testRedisUrl() })];
    const builder = Test.createTestingModule({ imports, providers: [Goods] });
    const module = await builder
      .overrideProvider(LockService)
      .useValue({ using: () => undefined })
      .compile();
    open.push(module);
    const error = await failureOf(() => module.get(Goods).buy(1));
    expect(error.message).toMatch(shownAs('LockService was replaced by …'));
  });
});
