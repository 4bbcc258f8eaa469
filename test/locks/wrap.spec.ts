import { describe, expect, it } from '@jest/globals';
import {
  LockKeyError,
  LockLostError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
  memory,
  resource,
} from 'nestjs-redis-lock';
import { lockChannels, type GrantedEvent } from 'nestjs-redis-lock/events';
import { createTestBench, createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from '../support/async.js';

/** What a call locks: its function returns it. */
const held = (locks: LockService) => locks.current()?.resource;

describe('a wrapped function', () => {
  it('runs for one caller at a time for each key, and returns what its function returns', async () => {
    const locks = createTestLocks();
    let inside = 0;
    let most = 0;
    const buy = locks.wrap('goods:<id>', async (id: number) => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise(setImmediate);
      inside -= 1;
      return `goods ${id} are sold`;
    });
    const sold: string[] = await Promise.all([buy(300), buy(300), buy(300)]);
    expect([sold, most]).toEqual([Array.from({ length: 3 }, () => 'goods 300 are sold'), 1]);
    await Promise.all([buy(1), buy(2)]);
    expect(most).toBe(2);
    expect(await locks.inspect('goods:300')).toBeNull();
  });

  it.each<[string, (locks: LockService) => Promise<unknown>, string]>([
    ['a name', (locks) => locks.wrap('goods:<id>', (id: number) => [id, held(locks)][1])(300), 'goods:300'],
    [
      'an index',
      (locks) => locks.wrap('goods:<1>', (_: string, id: number) => [id, held(locks)][1])('a', 300),
      'goods:300',
    ],
    [
      'a property',
      (locks) => locks.wrap('goods:<dto.id>', (dto: object) => [dto, held(locks)][1])({ id: 'a:b' }),
      'goods:a%3Ab',
    ],
    ['no placeholder', (locks) => locks.wrap('report', () => held(locks))(), 'report'],
    [
      'a function',
      (locks) =>
        locks.wrap(
          (id) => resource`goods:${id}`,
          (id: number) => [id, held(locks)][1],
        )(300),
      'goods:300',
    ],
  ])('locks by %s', async (_, call, expected) => {
    expect(await call(createTestLocks())).toBe(expected);
  });

  it('locks several resources by a list, a spread placeholder, or a function that returns a list', async () => {
    const locks = createTestLocks();
    const both = async (): Promise<(string | undefined)[]> =>
      ['account:1', 'account:2'].map((name) => locks.current(name)?.resource);
    const ids = async (list: readonly number[]) => [list.length, ...(await both())];
    const expected = ['account:1', 'account:2'];
    expect(
      await locks.wrap(['account:<from>', 'account:<to>'], async (from, to) => [from, to, ...(await both())])(1, 2),
    ).toEqual([1, 2, ...expected]);
    expect(await locks.wrap('account:<...list>', ids)([1, 2])).toEqual([2, ...expected]);
    expect(await locks.wrap((list) => list.map((id) => `account:${id}`), ids)([1, 2])).toEqual([2, ...expected]);
  });

  it('passes this on, and has the name and the number of parameters of its function', async () => {
    const locks = createTestLocks();
    const shop = {
      name: 'shop',
      buy: locks.wrap('goods:<id>', async function buy(this: { name: string }, id: number) {
        return `${this.name} has sold ${id}`;
      }),
    };
    expect(await shop.buy(300)).toBe('shop has sold 300');
    expect([shop.buy.name, shop.buy.length]).toEqual(['buy', 1]);
  });

  it('joins the lock that its caller holds, and has its options', async () => {
    const clock = new ManualClock();
    const locks = createTestLocks({ clock, ttlMs: 60_000 });
    const read = locks.wrap('goods:<id>', { ttlMs: 1_000, mode: 'shared' }, async (id: number) => {
      return [id, locks.current()?.expiresInMs];
    });
    const [[, leftMs]] = [await read(300)];
    expect(leftMs).toBeLessThanOrEqual(1_000);
    expect(await locks.using('goods:300', () => read(300))).toEqual([300, expect.any(Number)]);
    const two = locks.wrap('goods:<id>', { permits: 2, waitMs: 0 }, (id: number, end: Promise<void>) =>
      end.then(() => id),
    );
    const end = deferred();
    const [one, other, third] = [1, 2, 3].map(() => outcome(two(7, end.promise)));
    await clock.advance(0);
    expect([one, other]).toEqual([{}, {}]);
    expect(third.error).toBeInstanceOf(LockTimeoutError);
    end.resolve();
  });

  it('throws the error of its function, and LockLostError if the lock was lost', async () => {
    const bench = createTestBench();
    const { locks } = bench;
    const fail = locks.wrap('goods:<id>', (id: number) => {
      throw new Error(`no goods ${id}`);
    });
    await expect(fail(300)).rejects.toThrow('no goods 300');
    expect(await locks.inspect('goods:300')).toBeNull();
    const lose = async (id: number): Promise<string> => {
      await locks.forceRelease(`goods:${id}`);
      return 'late';
    };
    await expect(locks.wrap('goods:<id>', lose)(300)).rejects.toThrow(LockLostError);
    expect(await locks.wrap('goods:<id>', { onLost: 'ignore' }, lose)(300)).toBe('late');
  });

  it('is named in events, with the label of the call and the template as family', async () => {
    const events: unknown[] = [];
    const listener = (message: unknown): void => {
      const { method, label, family } = message as GrantedEvent;
      events.push({ method, label, family });
    };
    lockChannels.granted.subscribe(listener);
    const locks = createTestLocks();
    const buy = async (tenant: string) => tenant;
    await locks.wrap('<tenant>:goods', { label: (tenant) => `of ${tenant}` }, buy)('acme');
    await locks.wrap('goods', { label: 'all' }, async () => 1)();
    lockChannels.granted.unsubscribe(listener);
    expect(events).toEqual([
      { method: 'buy', label: 'of acme', family: '<tenant>:goods' },
      { method: undefined, label: 'all', family: 'goods' },
    ]);
  });
});

describe('a wrapped function that gets no lock', () => {
  it('rejects, is skipped, or returns what another function returns, while others hold it', async () => {
    const locks = createTestLocks({ waitMs: 0 });
    const holder = await locks.acquire('goods:300');
    const calls: number[] = [];
    const buy = async (id: number): Promise<string> => `sold ${calls.push(id)}`;
    await expect(locks.wrap('goods:<id>', buy)(300)).rejects.toThrow(LockTimeoutError);
    const skipping = locks.wrap('goods:<id>', { onBusy: 'skip' }, buy);
    const skipped: string | undefined = await skipping(300);
    const other = locks.wrap('goods:<id>', { onBusy: (error: LockTimeoutError, id: number) => [error.code, id] }, buy);
    expect([skipped, await other(300), calls]).toEqual([undefined, ['LOCK_TIMEOUT', 300], []]);
    expect(await skipping(1)).toBe('sold 1');
    await holder.release();
  });

  it('tolerates a busy lock and an unavailable Redis separately', async () => {
    const bench = createTestBench({ unavailableAfterMs: 0 });
    bench.unavailable();
    const buy = async (id: number): Promise<string> => `sold ${id}`;
    const wrapped = bench.locks.wrap('goods:<id>', { onBusy: 'skip' }, buy);
    await expect(wrapped(300)).rejects.toThrow(LockUnavailableError);
    const cached = bench.locks.wrap('goods:<id>', { onUnavailable: (_, id) => `cached ${id}` }, buy);
    expect(await cached(300)).toBe('cached 300');
    bench.unavailable(false);
    expect(await cached(300)).toBe('sold 300');
  });

  it.each<[string, unknown, unknown[], string]>([
    ['undefined', 'goods:<id>', [undefined], "wrap() of buy: <id> in 'goods:<id>' is undefined"],
    ['an array', 'goods:<id>', [[1, 2]], "wrap() of buy: <id> in 'goods:<id>' is an array"],
    ['a number in place of a resource', () => 7, [1], 'A resource is a string such as goods:300; this is 7'],
  ])('rejects an argument that cannot form a key: %s', async (_, template, args, problem) => {
    const locks = createTestLocks();
    const wrapped = locks.wrap(template as string, async function buy(id: unknown) {
      return id;
    });
    const call = wrapped(...(args as [unknown]));
    await expect(call).rejects.toThrow(LockKeyError);
    await expect(call).rejects.toThrow(problem);
  });
});

describe('wrap()', () => {
  const buy = async (id: number): Promise<number> => id;
  const minified = async (a: number): Promise<number> => a;
  const withDefault = async (id = 1): Promise<number> => id;

  it.each<[string, unknown[], string]>([
    ['a name that no parameter has', ['goods:<di>', buy], "<di> in 'goods:<di>' names no parameter. Names that can"],
    [
      'minified code',
      ['goods:<id>', minified],
      'Names that can be bound: a. Minifiers rename parameters. Write its index, <0>, or give wrap() a function',
    ],
    ['native code', ['goods:<id>', buy.bind(undefined)], 'No parameter has a name that can be bound.'],
    ['a default value', ['goods:<id>', withDefault], 'names a parameter with a default value, which wrap() does not'],
    ['a look-alike', ['goods:{id}', buy], "'{id}' in 'goods:{id}' is fixed text, so all calls would share one lock"],
    ['an empty list', [[], buy], 'wrap() of buy: the list of wrap() is an empty array'],
    ['no template', [undefined, buy], 'a template is a string, not undefined'],
    ['no function', ['goods'], 'wrap(): the function is undefined; expected a function'],
    ['a generator', ['goods', async function* all() {}], 'wrap() of all cannot hold a lock for a generator'],
    ['an unknown option', ['goods', { ttl: 1 }, buy], 'wrap() of buy: unknown option ttl'],
    ['a wrong value', ['goods', { onBusy: 'wait' }, buy], 'onBusy is "wait"; expected "throw", "skip" or a function'],
    ['the name of a module', ['goods', { name: 'stock' }, buy], 'unknown option name'],
    ['two modes', ['goods', { mode: 'shared', permits: 2 }, buy], 'mode and permits are both set'],
    ['excluding times', ['goods', { maxHoldMs: 1, minHoldMs: 2 }, buy], 'minHoldMs is 2; expected at most'],
  ])('refuses %s', (_, args, problem) => {
    // The types refuse these, too.
    const locks = createTestLocks() as unknown as Record<'wrap', (...given: readonly unknown[]) => unknown>;
    expect(() => locks.wrap(...args)).toThrow(problem);
  });

  it('names the label function whose result is not a string', async () => {
    const locks = createTestLocks({ store: memory() });
    const wrapped = locks.wrap('goods', { label: (() => 7) as never }, buy);
    await expect(wrapped(1)).rejects.toThrow('wrap() of buy: the result of the label function is 7');
  });
});
