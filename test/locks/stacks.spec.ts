import { describe, expect, it } from '@jest/globals';
import {
  Locked,
  LockClosedError,
  type LockError,
  type LockOptions,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
  runInLockScope,
} from 'nestjs-redis-lock';
import { withLocks } from 'nestjs-redis-lock/testing';
import { outcome } from '../support/async.js';
import { refuseWaitersOf } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

class Shop {
  @Locked('goods:<id>', { waitMs: 50 })
  async buy(id: number): Promise<number> {
    return id;
  }
}

const OPTIONS: LockOptions = { waitMs: 50 };
type Call = (locks: LockService) => Promise<unknown>;

/** Every way to ask for the lock. */
const CALLS: Readonly<Record<string, Call>> = {
  'acquire()': (locks) => locks.acquire('goods:300', OPTIONS),
  'using()': (locks) => locks.using('goods:300', OPTIONS, () => undefined),
  'acquire() of a list': (locks) => locks.acquire(['goods:301', 'goods:300'], OPTIONS),
  'using() of a list': (locks) => locks.using(['order:1', 'goods:300'], OPTIONS, () => undefined),
  'acquire() in a lock scope': (locks) => locks.scope(async () => locks.acquire('goods:300', OPTIONS)),
  'a list in a lock scope': (locks) => runInLockScope(() => locks.using(['goods:300', 'order:1'], OPTIONS, () => 1)),
  'using() inside another hold': (locks) =>
    locks.using('order:1', OPTIONS, async () => locks.using('goods:300', OPTIONS, () => 1)),
  'a @Locked method': (locks) => withLocks(new Shop(), locks).buy(300),
};

async function callerOfTheLock(call: Call, locks: LockService): Promise<unknown> {
  return await call(locks);
}

const start = () => faultyLocks({ unavailableAfterMs: 50 });

/** Returns the error that the caller gets within a minute. */
async function refused(call: Call, { clock, locks }: ReturnType<typeof start>): Promise<LockError> {
  const waiting = outcome(callerOfTheLock(call, locks));
  await clock.advance(60_000);
  return waiting.error as LockError;
}

// Node writes `async`, and the source maps of Jest leave it out.
const NAMED = /\n {4}at (?:async )?callerOfTheLock /;

describe('the stack of an error names the function that waited', () => {
  it.each(Object.entries(CALLS))('for a lock that is busy: %s', async (_, call) => {
    const all = start();
    await all.stranger.take(KEY);
    const error = await refused(call, all);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error.stack).toMatch(NAMED);
    // A tool that groups errors reads the first line.
    expect(error.stack?.split('\n')[0]).toBe(`LockTimeoutError: ${error.message}`);
  });

  it.each(Object.entries({ ...CALLS, 'tryAcquire()': (locks: LockService) => locks.tryAcquire('goods:300') }))(
    'for a store that fails: %s',
    async (_, call) => {
      const all = start();
      all.store.fail('acquire', new LockUnavailableError('Redis is down.'));
      const error = await refused(call, all);
      expect(error).toBeInstanceOf(LockUnavailableError);
      expect(error.stack).toMatch(NAMED);
    },
  );

  it.each<[string, 'inspect' | 'extend' | 'forceRelease', Call]>([
    ['inspect()', 'inspect', (locks) => locks.inspect('goods:300')],
    ['forceRelease()', 'forceRelease', (locks) => locks.forceRelease('goods:300')],
    ['extend()', 'extend', (locks) => locks.using('goods:300', (lock) => lock.extend())],
  ])('for a store that sends no reply: %s', async (_, verb, call) => {
    const all = start();
    all.store.hold(verb);
    const waiting = outcome(callerOfTheLock(call, all.locks));
    await all.clock.advance(2_000);
    const error = waiting.error as LockError;
    expect(error).toBeInstanceOf(LockUnavailableError);
    expect(error.stack).toMatch(NAMED);
  });

  it('for a waiter that a shutdown refuses', async () => {
    const all = start();
    await all.stranger.take(KEY);
    const waiting = outcome(callerOfTheLock(CALLS['using()'], all.locks));
    await all.clock.advance(10);
    refuseWaitersOf(all.locks);
    await all.clock.advance(0);
    expect(waiting.error).toBeInstanceOf(LockClosedError);
    expect((waiting.error as Error).stack).toMatch(NAMED);
  });

  it("and leaves the reason of the caller's signal as it is", async () => {
    const all = start();
    await all.stranger.take(KEY);
    const reason = new LockTimeoutError('of the caller');
    const { stack } = reason;
    const abort = new AbortController();
    const call: Call = (locks) => locks.using('goods:300', { signal: abort.signal }, () => undefined);
    const waiting = outcome(callerOfTheLock(call, all.locks));
    await all.clock.advance(10);
    abort.abort(reason);
    await all.clock.advance(0);
    expect(waiting.error).toBe(reason);
    expect(reason.stack).toBe(stack);
  });
});
