import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  Locked,
  LockError,
  LockKeyError,
  LockLostError,
  type LockOptions,
  LockTimeoutError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

afterEach(() => {
  jest.restoreAllMocks();
});

const HOSTILE = 'request 7\nERROR: forged\u2028line';

class Shop {
  @Locked('goods:<id>', { label: 'request 7', maxHoldMs: 200 })
  async buy(id: number, work: Promise<void>): Promise<number> {
    await work;
    return id;
  }

  @Locked('goods:<id>', { mode: 'shared' })
  async look(id: number, work: Promise<void>): Promise<number> {
    await work;
    return id;
  }

  @Locked(['goods:<from>', 'goods:<to>'])
  async move(from: number, to: number, work: Promise<void>): Promise<void> {
    await work;
    void [from, to];
  }
}

describe('a lost lock', () => {
  it('is logged with its method and label, and LockLostError says the same', async () => {
    const lines: string[] = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((line: string) => void lines.push(line));
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const buying = outcome(withLocks(new Shop(), locks).buy(300, work.promise));
    await clock.advance(1_000);
    work.resolve();
    await clock.advance(0);
    expect(lines).toEqual([
      'The lock on goods:300 by Shop.buy (request 7) was lost after 200 ms: maxHoldMs (200) has elapsed.',
    ]);
    expect(buying.error).toBeInstanceOf(LockLostError);
    expect((buying.error as Error).message).toBe(lines[0]);
  });

  it.each<[LockOptions, string]>([
    [{}, 'The lock on goods:300 was lost'],
    [{ label: 'request 7' }, 'The lock on goods:300 (request 7) was lost'],
    [{ label: HOSTILE }, 'The lock on goods:300 (request 7?ERROR: forged?line) was lost'],
  ])('of a call with %j says what is known, on one line', async (options, text) => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { ...options, maxHoldMs: 200 });
    await clock.advance(1_000);
    expect(() => lock.assertHeld()).toThrow(text);
    expect((lock.signal.reason as Error).message).not.toMatch(/[\n\u2028]/);
  });
});

describe('a busy lock that a method of this instance holds', () => {
  const refusedBy = async (locks: ReturnType<typeof faultyLocks>, options: LockOptions): Promise<LockTimeoutError> => {
    const refused = outcome(locks.locks.acquire('goods:300', { waitMs: 0, ...options }));
    await locks.clock.advance(0);
    return refused.error as LockTimeoutError;
  };

  it.each<[string, LockOptions, (shop: Shop, work: Promise<void>) => Promise<unknown>]>([
    ['Shop.buy', {}, (shop, work) => shop.buy(300, work)],
    ['Shop.buy', { mode: 'shared' }, (shop, work) => shop.buy(300, work)],
    ['Shop.look', {}, (shop, work) => shop.look(300, work)],
    ['Shop.move', {}, (shop, work) => shop.move(1, 300, work)],
  ])('is refused with the name of the method %s for a caller with %j', async (method, options, call) => {
    const all = faultyLocks({ identity: 'api-1' });
    const work = deferred();
    const held = outcome(call(withLocks(new Shop(), all.locks), work.promise));
    await all.clock.advance(100);
    const error = await refusedBy(all, options);
    expect(error).toMatchObject({ isOwn: true, heldBy: 'api-1' });
    expect(error.message).toContain(`held by ${method} of this instance`);
    // Clients learn nothing of it.
    expect(error.publicMessage).not.toContain('Shop');
    work.resolve();
    await all.clock.advance(0);
    expect(held).not.toHaveProperty('error');
  });
});

describe('in a log, as JSON and by util.inspect', () => {
  it('a lock is one line', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { label: HOSTILE });
    await clock.advance(0.25);
    const { fencingToken } = lock;
    const expiresInMs = Math.floor(lock.expiresInMs);
    const shown = { resource: 'goods:300', key: '{lock_goods}:300', fencingToken, expiresInMs };
    expect(JSON.parse(JSON.stringify(lock))).toEqual(shown);
    expect(inspect(lock)).toBe(
      `Lock { resource: 'goods:300', key: '{lock_goods}:300', fencingToken: ${fencingToken}, expiresInMs: ${expiresInMs} }`,
    );
    await lock.release();
    expect(JSON.parse(JSON.stringify(lock))).toEqual({ ...shown, expiresInMs: 0 });
  });

  it('locks that were acquired together are one line, however many there are', async () => {
    const { locks } = faultyLocks();
    const resources = Array.from({ length: 300 }, (_, id) => `goods:${id}`);
    const lock = await locks.acquire(resources);
    expect(JSON.parse(JSON.stringify(lock))).toEqual({ resources, expiresInMs: expect.any(Number) });
    expect(inspect({ lock }, { breakLength: 1_000 })).toMatch(
      /^\{ lock: MultiLock \{ resources: \[ 'goods:0', .*\.\.\. 290 more items \], expiresInMs: \d+ \} \}$/,
    );
  });

  it('a lock scope names the locks that it keeps', async () => {
    const { locks } = faultyLocks();
    const scope = await locks.scope(async (running) => {
      await locks.using('goods:300', () => undefined);
      expect(JSON.parse(JSON.stringify(running))).toEqual({ resources: ['goods:300'], isOpen: true });
      expect(inspect(running)).toBe("LockScope { resources: [ 'goods:300' ], isOpen: true }");
      return [running];
    });
    expect(inspect(scope)).toBe('[ LockScope { resources: [], isOpen: false } ]');
  });

  it('an error has its name, its message and its fields in whole milliseconds', async () => {
    const { clock, locks, stranger } = faultyLocks();
    await stranger.take('{lock_goods}:300');
    const refused = outcome(locks.acquire('goods:300', { waitMs: 50.5 }));
    await clock.advance(60);
    const error = refused.error as LockTimeoutError;
    const { message, stack } = error;
    const json = JSON.parse(JSON.stringify(error)) as Record<string, unknown>;
    expect(json).toMatchObject({ name: 'LockTimeoutError', message, code: 'LOCK_TIMEOUT', resource: 'goods:300' });
    for (const value of Object.values(json)) expect(typeof value).not.toBe('object');
    for (const name of ['elapsedMs', 'remainingMs']) expect(Number.isInteger(json[name])).toBe(true);
    expect(json).not.toHaveProperty('publicMessage');
    const lines = inspect(error).split('\n');
    expect(lines.slice(0, -1)).toEqual(String(stack).split('\n').slice(0, -1));
    expect(lines.at(-1)).toMatch(/ \{ code: 'LOCK_TIMEOUT', resource: 'goods:300', elapsedMs: \d+, .*\}$/);
    expect(lines.at(-1)).not.toContain('undefined');
  });

  it("an error shows its cause, without the objects inside of a client's error", () => {
    const cause = Object.assign(new Error('READONLY'), { command: { name: 'evalsha', args: ['{lock_goods}:300'] } });
    const error = new LockUnavailableError('goods:300 could not be locked.', { cause });
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ cause: 'READONLY', permanent: false });
    expect(inspect(error)).toContain('\n  [cause]: Error: READONLY\n      at ');
    expect(inspect(error)).not.toContain('evalsha');
  });

  it.each<[string, LockError]>([
    ['without a stack', Object.assign(new LockLostError('lost'), { stack: undefined })],
    ['with a cause that cannot be read', new LockLostError('lost', { cause: Proxy.revocable({}, {}).proxy })],
    [
      'with a placeholder',
      new LockKeyError('lost', { placeholder: { text: '<id>', index: 0, path: [], spread: false } }),
    ],
  ])('an error %s is shown', (_, error) => {
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ name: error.name, message: 'lost' });
    expect(inspect(error)).toMatch(/^Lock(Lost|Key)Error: lost/);
  });
});
