import { AsyncLocalStorage } from 'node:async_hooks';
import { readFile } from 'node:fs/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockScope, type Lock, Locked, LockLostError, type LockService } from 'nestjs-redis-lock';
import { createTestLocks, LostLockFailure, ManualClock, survivesLostLock, withLocks } from 'nestjs-redis-lock/testing';

const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns the lines of the awaits that the failure names, as the functions that have them. */
async function unsafeOf(check: Promise<unknown>): Promise<readonly (string | undefined)[]> {
  const error: unknown = await check.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof LostLockFailure)) throw new Error('no failure', { cause: error });
  return error.awaits.map(({ method }) => method);
}

describe('survivesLostLock()', () => {
  let locks: LockService;
  /** What callers add to. Two that overlap make a wrong sum. */
  let sum: number;
  let added: number;
  const setup = (): void => void (sum = added = 0);
  const isRight = (): boolean => sum === added;

  /** Reads, works and writes, as code without a check does. */
  async function addOne(lock?: Lock): Promise<void> {
    const before = sum;
    await soon();
    lock?.assertHeld();
    sum = before + 1;
    added += 1;
  }

  beforeEach(() => {
    Logger.overrideLogger(false);
    locks = createTestLocks({ clock: new ManualClock() });
    setup();
  });

  it('names the await after which a check is missing', async () => {
    const check = survivesLostLock(() => locks.using('sum', () => addOne()), isRight, { setup, locks });
    expect(await unsafeOf(check)).toEqual(['addOne']);
    await expect(survivesLostLock(() => locks.using('sum', () => addOne()), isRight, { setup, locks })).rejects.toThrow(
      /sum lost after the await at test\/locks\/survives-lost-lock\.spec\.ts:\d+:\d+ \(addOne\)/,
    );
  });

  it('names what was found until maxRuns was reached', async () => {
    const work = (): Promise<void> => locks.using('sum', () => addOne());
    const check = survivesLostLock(work, isRight, { setup, locks, maxRuns: 2 });
    expect(await unsafeOf(check)).toEqual(['addOne']);
  });

  it('passes with a check right before the write', async () => {
    const report = await survivesLostLock(() => locks.using('sum', (lock) => addOne(lock)), isRight, { setup, locks });
    expect(report).toEqual({ runs: 3, awaits: [expect.stringContaining('survives-lost-lock.spec.ts')] });
  });

  it('passes with a fence at what is written', async () => {
    let highest = 0;
    const work = (): Promise<void> =>
      locks.using('sum', async ({ fencingToken }) => {
        const before = sum;
        await soon();
        if (fencingToken < highest) throw new Error('stale');
        highest = fencingToken;
        sum = before + 1;
        added += 1;
      });
    expect((await survivesLostLock(work, isRight, { setup, locks })).runs).toBe(3);
  });

  it('finds the second round of a loop, and nothing outside of the lock', async () => {
    const work = async (): Promise<void> => {
      await soon();
      await locks.using('sum', async (lock) => {
        for (let round = 0; round < 3; round += 1) {
          const before = sum;
          await soon();
          if (round < 2) lock.assertHeld();
          sum = before + 1;
          added += 1;
        }
      });
      await soon();
    };
    const check = survivesLostLock(work, isRight, { setup, locks });
    expect(await unsafeOf(check)).toHaveLength(1);
  });

  it('stops parallel branches until the second holder has ended', async () => {
    const work = (): Promise<unknown> =>
      locks.using('sum', async (lock) => Promise.all([addOne(lock), soon().then(() => soon())]));
    const { awaits } = await survivesLostLock(work, isRight, { setup, locks });
    expect(awaits.length).toBeGreaterThan(0);
  });

  it('loses all locks of the call: nested ones, lists, scopes and handles', async () => {
    class Nested {
      @LockScope()
      @Locked('a')
      async run(): Promise<void> {
        await locks.using(['b', 'c'], async () => {
          const handle = await locks.acquire('d');
          await soon();
          await handle.release();
        });
      }
    }
    const nested = withLocks(new Nested(), locks);
    let isBroken = false;
    const check = survivesLostLock(
      () => nested.run(),
      () => isBroken,
      { setup: () => void (isBroken = !isBroken), locks },
    );
    const error: unknown = await check.catch((reason: unknown) => reason);
    const awaits = error instanceof LostLockFailure ? error.awaits : [];
    expect(awaits.map(({ resources }) => resources.toSorted())).toContainEqual(['a', 'b', 'c', 'd']);
  });

  it('sees promises of Node itself, rejections, and errors of the call', async () => {
    const seen: unknown[] = [];
    const work = (): Promise<void> =>
      locks.using('sum', async (lock) => {
        await readFile('/nowhere/at/all').catch(() => undefined);
        try {
          await Promise.reject(new Error('expected'));
        } catch (error) {
          seen.push((error as Error).message);
        }
        try {
          await addOne(lock);
        } catch (error) {
          seen.push(error);
          throw error;
        }
      });
    const { awaits } = await survivesLostLock(work, isRight, { setup, locks });
    expect(awaits).toHaveLength(4);
    expect(seen).toContain('expected');
    expect(seen.some((error) => error instanceof LockLostError)).toBe(true);
  });

  it('lets another call in between', async () => {
    const second = (): Promise<void> => locks.using('sum', () => addOne());
    let seconds = 0;
    const check = survivesLostLock(() => locks.using('sum', () => addOne()), isRight, {
      setup,
      locks,
      second: () => ((seconds += 1), second()),
    });
    expect(await unsafeOf(check)).toEqual(['addOne']);
    expect(seconds).toBe(1);
  });

  it('runs the second holder in the context of the test, outside of all locks', async () => {
    const ofTest = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    await ofTest.run('test', async () => {
      const work = (): Promise<void> =>
        locks.scope(() => locks.using('sum', (lock) => ofTest.run('work', () => addOne(lock))));
      const second = async (): Promise<void> => {
        seen.push(ofTest.getStore(), locks.current());
        await locks.using('sum', (lock) => addOne(lock));
        seen.push(await locks.inspect('sum'));
      };
      await survivesLostLock(work, isRight, { setup, locks, second });
    });
    expect(seen.length).toBeGreaterThan(0);
    for (let at = 0; at < seen.length; at += 3) expect(seen.slice(at, at + 3)).toEqual(['test', undefined, null]);
  });

  it('advances the manual clock while the second holder waits', async () => {
    const closed = createTestLocks({ clock: new ManualClock(), lockDelayMs: 500 });
    const work = (): Promise<void> => closed.using('sum', () => addOne());
    expect(await unsafeOf(survivesLostLock(work, isRight, { setup, locks: closed }))).toEqual(['addOne']);
  });

  it('refuses what would check nothing', async () => {
    const check = (work: () => unknown, invariant: () => unknown = isRight, options = {}) =>
      survivesLostLock(work, invariant, { setup, locks, ...options });
    await expect(check(() => addOne())).rejects.toThrow(/No await of the call was under a lock/);
    const using = (): Promise<void> => locks.using('sum', () => addOne());
    await expect(check(using, () => false)).rejects.toThrow('The invariant does not hold without a loss.');
    const failing = (): Promise<void> => locks.using('sum', () => Promise.reject(new Error('own')));
    await expect(check(failing)).rejects.toMatchObject({ message: 'The call fails without a loss.' });
    const other = { second: () => locks.using('other', () => addOne()) };
    await expect(check(using, isRight, other)).rejects.toThrow('The second holder was not granted sum');
    await expect(check(using, isRight, { maxRuns: 1 })).rejects.toThrow(/see maxRuns/);
    await expect(check(using, isRight, { files: /nowhere/ })).rejects.toThrow(/No await of the call/);
    const stuck = (): Promise<void> => locks.using('sum', () => new Promise(() => undefined));
    await expect(check(stuck, isRight, { timeoutMs: 50 })).rejects.toThrow('the call has not settled within 50 ms');
    await expect(check(using, isRight, { locks: [] })).rejects.toThrow(/expected a LockService/);
    await expect(check(using, isRight, { unknown: 1 })).rejects.toThrow(/there is no option unknown/);
  });

  it('runs once at a time, and leaves promises as they were', async () => {
    const before = Object.getOwnPropertyDescriptor(Promise.prototype, 'constructor');
    const check = survivesLostLock(() => locks.using('sum', (lock) => addOne(lock)), isRight, { setup, locks });
    await expect(survivesLostLock(() => undefined, isRight, { locks })).rejects.toThrow(/is already running/);
    await check;
    expect(Object.getOwnPropertyDescriptor(Promise.prototype, 'constructor')).toEqual(before);
    expect(Promise.resolve(1).constructor).toBe(Promise);
  });
});
