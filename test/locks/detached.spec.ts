import { asked } from '../support/asked.js';
import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  type Lock,
  LockClosedError,
  LockConfigError,
  LockLostError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
  type RedisLockModuleOptions,
  runInLockScope,
} from 'nestjs-redis-lock';
import { lockChannels } from 'nestjs-redis-lock/events';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { UnansweredError } from '../../lib/contract/store.js';
import { outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

const DOC = 'goods:300';

/** Two module instances. The first one has detached the lock. */
async function detached(options = {}, ttlMs?: number, others: RedisLockModuleOptions = {}) {
  const all = faultyLocks();
  const other = all.neighbour(others);
  const lock = await all.locks.acquire(DOC, options);
  const { fencingToken } = lock;
  const ticket = await lock.detach({ ttlMs });
  return { ...all, other: other.locks, otherStore: other.store, lock, fencingToken, ticket };
}

/** The second instance has tried to resume the lock. Its requests run, or are delayed, and get no reply. */
async function unanswered(fault: 'fail' | 'delay' = 'fail') {
  const all = await detached({}, 60_000, { unavailableAfterMs: 500 });
  const { clock, other, otherStore, ticket } = all;
  if (fault === 'delay') otherStore.delay('transfer');
  else otherStore.fail('transfer', new UnansweredError('no reply, because the connection ended'));
  const resumed = outcome(other.resume(DOC, ticket));
  await clock.advance(500);
  return { ...all, resumed };
}

const isFree = async (locks: LockService): Promise<boolean> => (await locks.inspect(DOC)) === null;

/** Returns the ticket with another character at that place. */
function changed(ticket: string, at: number): string {
  return `${ticket.slice(0, at)}${ticket[at] === 'A' ? 'B' : 'A'}${ticket.slice(at + 1)}`;
}

describe('a detached lock', () => {
  it('is held without a renewal for its lease, and the instance no longer has it', async () => {
    const { clock, locks, other, lock, store } = await detached();
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(lock.signal.aborted).toBe(false);
    await clock.advance(29_900);
    expect(await other.tryAcquire(DOC)).toBeNull();
    expect(store.extendBatches).toHaveLength(0);
    await clock.advance(200);
    expect(await other.tryAcquire(DOC)).not.toBeNull();
    expect([await lock.release(), locks.current(DOC)]).toEqual([false, undefined]);
  });

  it('is resumed in any instance with its token, renewed from then on, and released', async () => {
    const { clock, other, ticket, fencingToken } = await detached();
    const lock = await other.resume(DOC, ticket);
    expect(lock.fencingToken).toBe(fencingToken);
    await clock.advance(120_000);
    lock.assertHeld();
    const next = outcome(other.acquire(DOC, { waitMs: 60_000 }));
    await clock.advance(10);
    // It is not passed on: the next caller gets it by a request.
    expect([await lock.release(), next.value]).toEqual([true, undefined]);
    await clock.advance(10);
    expect((next.value as Lock).fencingToken).toBeGreaterThan(fencingToken + 16);
  });

  it('keeps the token of a caller that was passed the lock', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const first = await locks.acquire(DOC);
    const waiting = outcome(locks.acquire(DOC));
    await clock.advance(1);
    await first.release();
    await clock.advance(0);
    const second = waiting.value as Lock;
    expect(second.fencingToken).toBe(first.fencingToken + 1);
    const ticket = await second.detach();
    const { locks: other } = neighbour();
    expect(await other.inspect(DOC)).toMatchObject({ fencingToken: second.fencingToken });
    expect((await other.resume(DOC, ticket)).fencingToken).toBe(second.fencingToken);
  });

  it('is renewed by a heartbeat with the ttlMs of detach(), which never shortens a lease', async () => {
    const { clock, other, ticket } = await detached({}, 60_000);
    for (let i = 0; i < 5; i += 1) {
      await clock.advance(50_000);
      await other.extend(DOC, ticket);
      await other.extend(DOC, ticket, { ttlMs: 1_000 });
    }
    await clock.advance(59_900);
    expect(await isFree(other)).toBe(false);
    await other.extend(DOC, ticket, { ttlMs: 90_000 });
    await clock.advance(89_900);
    expect(await isFree(other)).toBe(false);
    await clock.advance(200);
    await expect(other.extend(DOC, ticket)).rejects.toThrow(LockLostError);
  });

  it('is released by its ticket once, for the next in the queue', async () => {
    const { clock, locks, other, ticket } = await detached();
    const next = outcome(locks.acquire(DOC, { waitMs: 60_000 }));
    await clock.advance(10);
    expect([await other.release(DOC, ticket), await other.release(DOC, ticket)]).toEqual([true, false]);
    await clock.advance(10);
    (next.value as Lock).assertHeld();
  });

  it('is not held longer than maxHoldMs since its grant, by heartbeats and resumed holds', async () => {
    const { clock, locks, other, ticket } = await detached({ maxHoldMs: 100_000 });
    for (let i = 0; i < 3; i += 1) {
      await clock.advance(20_000);
      await other.extend(DOC, ticket);
    }
    const again = await (await locks.resume(DOC, ticket)).detach();
    const lock = await other.resume(DOC, again);
    await clock.advance(39_000);
    lock.assertHeld();
    await clock.advance(1_000);
    expect(lock.signal.reason).toMatchObject({ message: expect.stringContaining('maxHoldMs') });
    await clock.advance(500);
    expect(await isFree(other)).toBe(true);
  });

  it('stays closed to waiters of its own instance, which it is not passed on to', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire(DOC);
    const waiting = outcome(locks.acquire(DOC, { waitMs: 10_000 }));
    await clock.advance(1);
    const ticket = await lock.detach();
    await clock.advance(20_000);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    (await locks.resume(DOC, ticket)).assertHeld();
  });

  it('is kept if using() has detached it', async () => {
    const { locks, neighbour } = faultyLocks();
    const ticket = await locks.using(DOC, (lock) => lock.detach());
    const lock = await neighbour().locks.resume(DOC, ticket);
    expect(lock.expiresInMs).toBeGreaterThan(29_000);
  });

  it('is kept by a lock scope in which it was resumed', async () => {
    const { locks, other, ticket } = await detached();
    await runInLockScope(async () => {
      await (await locks.resume(DOC, ticket)).release();
      expect(await other.tryAcquire(DOC)).toBeNull();
    });
    expect(await isFree(other)).toBe(true);
  });

  it('is shown as detached, and has events like other holds', async () => {
    const events: unknown[] = [];
    const listen = (message: unknown, name: string | symbol): void => {
      const { fencingToken, isDetached, outcome: how } = message as Record<string, unknown>;
      events.push([String(name).split(':')[1], fencingToken ?? isDetached ?? how]);
    };
    for (const each of Object.values(lockChannels)) each.subscribe(listen);
    const { other, ticket, fencingToken } = await detached();
    const info = await other.inspect(DOC);
    expect(info).toMatchObject({ holder: 'detached', identity: undefined, isOwn: false, fencingToken });
    await (await other.resume(DOC, ticket)).release();
    await other.resume(DOC, ticket).catch(() => undefined);
    for (const each of Object.values(lockChannels)) each.unsubscribe(listen);
    const hold = (isDetached: boolean) => [
      ['requested', undefined],
      ['granted', fencingToken],
      ['released', isDetached],
    ];
    expect(events).toEqual([...hold(true), ...hold(false), ['requested', undefined], ['refused', 'lost']]);
  });
});

describe('with lockDelayMs, a detached lock', () => {
  const delayed = { lockDelayMs: 60_000 };

  /** Like {@link detached}, in instances with a lock delay. */
  async function detachedWithDelay(options = {}, ttlMs?: number) {
    const { clock, locks, neighbour } = faultyLocks(delayed);
    const other = neighbour(delayed).locks;
    return { clock, locks, other, ticket: await (await locks.acquire(DOC, options)).detach({ ttlMs }) };
  }

  it('stays closed after its lease, in which the ticket still works', async () => {
    const { clock, other, ticket } = await detachedWithDelay({}, 5_000);
    await clock.advance(64_000);
    expect(await other.tryAcquire(DOC)).toBeNull();
    await other.extend(DOC, ticket);
    await clock.advance(64_000);
    expect(await other.tryAcquire(DOC)).toBeNull();
    await clock.advance(1_100);
    await expect(other.extend(DOC, ticket)).rejects.toThrow(LockLostError);
    expect(await isFree(other)).toBe(true);
  });

  it('is resumed without the delay in its lease, and released at once', async () => {
    const { locks, other, ticket } = await detachedWithDelay();
    const lock = await other.resume(DOC, ticket);
    expect(lock.expiresInMs).toBeLessThanOrEqual(30_000);
    const again = await lock.detach();
    expect(await locks.release(DOC, again)).toBe(true);
    expect(await isFree(other)).toBe(true);
  });

  it('is over at the end of maxHoldMs, and then stays closed', async () => {
    const { clock, locks, other, ticket } = await detachedWithDelay({ maxHoldMs: 40_000 });
    await clock.advance(39_000);
    await other.extend(DOC, ticket);
    await clock.advance(1_100);
    await expect(other.extend(DOC, ticket)).rejects.toThrow(LockLostError);
    await expect(other.resume(DOC, ticket)).rejects.toThrow(LockLostError);
    expect(await locks.tryAcquire(DOC)).toBeNull();
    await clock.advance(60_000);
    expect(await isFree(locks)).toBe(true);
  });
});

describe('a ticket', () => {
  it('gives the lock to one of several callers that resume it', async () => {
    const { locks, other, ticket } = await detached();
    const all = await Promise.allSettled([locks, other, locks, other].map((each) => each.resume(DOC, ticket)));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const reasons = all.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []));
    expect(reasons.map(({ name }) => name)).toEqual(Array.from({ length: 3 }, () => 'LockLostError'));
  });

  it('is over after it was resumed, released or overtaken, and the error says so', async () => {
    const { clock, locks, other, ticket } = await detached();
    const lock = await other.resume(DOC, ticket);
    const message = expect.stringMatching(/^The ticket of goods:300 is over: .* Others hold the lock now\.$/);
    const lost = { code: 'LOCK_LOST', byClient: true, resource: DOC, message };
    await expect(locks.resume(DOC, ticket)).rejects.toMatchObject(lost);
    await expect(locks.extend(DOC, ticket)).rejects.toMatchObject(lost);
    expect(await locks.release(DOC, ticket)).toBe(false);
    lock.assertHeld();
    const second = await lock.detach();
    await locks.forceRelease(DOC);
    const free = expect.stringContaining('Nobody holds the lock now');
    await expect(locks.resume(DOC, second)).rejects.toMatchObject({ code: 'LOCK_LOST', message: free });
    const third = await (await locks.acquire(DOC)).detach();
    await clock.advance(31_000);
    await other.acquire(DOC);
    await expect(locks.extend(DOC, third)).rejects.toMatchObject(lost);
  });

  it('of another resource has no effect', async () => {
    const { locks, ticket } = await detached();
    const beside = await (await locks.acquire('goods:301')).detach();
    await expect(locks.resume('goods:301', ticket)).rejects.toThrow(LockLostError);
    await expect(locks.resume('goods:302', ticket)).rejects.toThrow(LockLostError);
    expect(await locks.release(DOC, beside)).toBe(false);
    (await locks.resume(DOC, ticket)).assertHeld();
  });

  it('cannot be guessed from another one, from what Redis shows, or from its hash', async () => {
    const { locks, other, memory, ticket } = await detached();
    const second = await (await locks.acquire('goods:301')).detach();
    expect(new Set([ticket, second, ...(await otherTickets(locks))]).size).toBe(22);
    const owner = memory.table.rows.get('{lock_goods}:300')?.lock?.owner ?? '';
    expect(owner).toMatch(/^detached:[\w-]{43}$/);
    const hash = owner.split(':')[1];
    for (const guess of [hash, owner, `t1-${hash}`, `t1-${hash.slice(0, 30)}`, hash.slice(0, 33)])
      expect(await other.release(DOC, guess).catch((error: unknown) => error)).not.toBe(true);
    // The last character has bits that no byte needs.
    for (let at = 3; at < ticket.length; at += 1) expect(await other.release(DOC, changed(ticket, at))).toBe(false);
    (await other.resume(DOC, ticket)).assertHeld();
  });

  it('is in no error, event, inspection, list or request to the store', async () => {
    const events: unknown[] = [];
    const listen = (message: unknown): void => void events.push(message);
    for (const each of Object.values(lockChannels)) each.subscribe(listen);
    const { clock, locks, other, lock, store, otherStore, ticket, memory } = await detached();
    const listing = createTestLocks({ clock, store: () => memory });
    const shown: unknown[] = [lock, JSON.stringify(lock), await other.inspect(DOC), memory.table.rows];
    for await (const each of listing.list()) shown.push(each);
    shown.push(await other.tryAcquire(DOC), await other.acquire(DOC, { waitMs: 0 }).catch((error: unknown) => error));
    for (const text of [`${ticket}x`, ` ${ticket}`, ticket.toUpperCase()])
      shown.push(await other.resume(DOC, text).catch((error: unknown) => error));
    shown.push(await other.resume('goods:301', ticket).catch((error: unknown) => error));
    const resumed = await other.resume(DOC, ticket);
    shown.push(resumed, await locks.extend(DOC, ticket).catch((error: unknown) => error), await resumed.release());
    for (const each of Object.values(lockChannels)) each.unsubscribe(listen);
    const text = inspect([shown, events, store.transfers, otherStore.transfers], { depth: 9, showHidden: true });
    expect(text).toContain('detached');
    expect(text.toLowerCase()).not.toContain(ticket.slice(3).toLowerCase());
    const errors = shown.filter((each) => each instanceof Error);
    expect(errors.map((error) => error.name)).toEqual([
      'LockTimeoutError',
      ...Array.from({ length: 3 }, () => 'LockKeyError'),
      'LockLostError',
      'LockLostError',
    ]);
  });

  it.each([undefined, null, 1, '', 'x', {}, ['t1-'], 't1-', 't2-123456789012345678901234567890'])(
    'that is %p is refused with what is allowed',
    async (given) => {
      const { locks } = faultyLocks();
      const refused = { code: 'LOCK_KEY', byClient: true, message: expect.stringContaining('what detach() returned') };
      const ticket = given as string;
      for (const call of [locks.resume(DOC, ticket), locks.extend(DOC, ticket), locks.release(DOC, ticket)])
        await expect(call).rejects.toMatchObject(refused);
    },
  );
});

/** Returns twenty more tickets. */
async function otherTickets(locks: LockService): Promise<readonly string[]> {
  const names = Array.from({ length: 20 }, (_, i) => `goods:4${i}`);
  return Promise.all(names.map(async (name) => (await locks.acquire(name)).detach()));
}

describe('detach() is refused, and the lock stays held,', () => {
  /** Returns the error of a refusal. */
  const refusalOf = async (lock: Lock): Promise<string> => {
    const error = await lock.detach().catch((refusal: unknown) => refusal);
    lock.assertHeld();
    return error instanceof LockConfigError ? error.message : `not refused: ${typeof error}`;
  };

  it.each<[string, (locks: LockService) => Promise<readonly Lock[]>, string]>([
    ['a reader', async (locks) => [await locks.acquire(DOC, { mode: 'shared' })], 'only an exclusive lock'],
    ['a permit', async (locks) => [await locks.acquire(DOC, { permits: 2 })], 'only an exclusive lock'],
    ['a list', async (locks) => (await locks.acquire([DOC, 'goods:2'])).locks, 'acquire it alone'],
  ])('for %s', async (_what, acquire, why) => {
    for (const lock of await acquire(faultyLocks().locks)) expect(await refusalOf(lock)).toContain(why);
  });

  it('for a nested hold, and for one around it', async () => {
    const { locks } = faultyLocks();
    await locks.using(DOC, async (outer) => {
      await locks.using(DOC, async (inner) => {
        expect(await refusalOf(inner)).toContain('also held by a nested hold');
        expect(await refusalOf(outer)).toContain('also held by a nested hold');
      });
      expect(await outer.detach()).toMatch(/^t1-/);
    });
  });

  it('for what a lock scope keeps', async () => {
    const { locks } = faultyLocks();
    await runInLockScope(async () => {
      expect(await refusalOf(await locks.acquire(DOC))).toContain('a lock scope');
      expect(await refusalOf(locks.current(DOC) as Lock)).toContain('a lock scope');
    });
  });

  it('for the lock of a leader', async () => {
    const { clock, locks } = faultyLocks();
    let refusal = '';
    const onElected = async (lock: Lock): Promise<void> => {
      refusal = await refusalOf(lock);
    };
    const leadership = locks.lead('mailer', { onElected });
    await clock.advance(0);
    expect(refusal).toContain('a leader');
    const lock = locks.engine.holds()[0];
    expect(await refusalOf(lock)).toContain('a leader');
    await leadership.close();
  });

  it('with minHoldMs or onceMs, and with a bad option', async () => {
    const { locks } = faultyLocks();
    expect(await refusalOf(await locks.acquire(DOC, { minHoldMs: 1_000 }))).toContain('minHoldMs: 1000');
    const inRun = await locks.using('goods:302', { onceMs: 60_000 }, (lock) => refusalOf(lock));
    expect(inRun).toContain('the lock is of a call with onceMs, which ends with its work');
    const lock = await locks.acquire('goods:301');
    await expect(lock.detach({ ttlMs: 1 })).rejects.toThrow('detach(): ttlMs is 1; expected');
    await expect(lock.detach({ leaseMs: 1_000 } as never)).rejects.toThrow('leaseMs');
    lock.assertHeld();
    const ticket = await lock.detach();
    await expect(locks.resume('goods:301', ticket, { maxHoldMs: 1 } as never)).rejects.toThrow('maxHoldMs');
    await expect(locks.extend('goods:301', ticket, { ttlMs: 0 })).rejects.toThrow('extend(): ttlMs is 0');
  });

  it('after the lock was released or lost', async () => {
    const { clock, locks, memory } = faultyLocks();
    const lock = await locks.acquire(DOC);
    await lock.release();
    await expect(lock.detach()).rejects.toThrow(LockLostError);
    const lost = await locks.acquire(DOC);
    memory.table.clear();
    await expect(lost.detach()).rejects.toThrow(LockLostError);
    await clock.advance(0);
    expect(await isFree(locks)).toBe(true);
  });

  it('by a store that cannot keep a lock for a ticket', async () => {
    const { store, locks } = faultyLocks();
    Object.assign(store, { transfer: undefined });
    store.less.name = 'quorum()';
    const lock = await locks.acquire(DOC);
    expect(await refusalOf(lock)).toContain(
      'detach(): quorum() cannot keep a lock for a ticket; use token() or memory().',
    );
    const ticket = `t1-${'A'.repeat(30)}`;
    await expect(locks.resume(DOC, ticket)).rejects.toThrow('resume(): quorum() cannot');
    await expect(locks.extend(DOC, ticket)).rejects.toThrow('extend(): quorum() cannot');
    await expect(locks.release(DOC, ticket)).rejects.toThrow('release(): quorum() cannot');
  });
});

describe('without a reply,', () => {
  it('detach() is repeated until there is one', async () => {
    const { clock, locks, store, neighbour } = faultyLocks();
    const lock = await locks.acquire(DOC);
    // The request runs, and its reply is lost.
    store.fail('transfer', new Error('cut'));
    const ticket = outcome(lock.detach());
    await clock.advance(5_000);
    expect([ticket.value, ticket.error]).toEqual([undefined, undefined]);
    store.fail('transfer');
    await clock.advance(1_000);
    (await neighbour().locks.resume(DOC, ticket.value as string)).assertHeld();
  });

  it('detach() ends with the lease, and nobody keeps the lock', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire(DOC);
    store.fail('transfer', new LockUnavailableError('cut'));
    const ticket = outcome(lock.detach({ ttlMs: 600_000 }));
    await clock.advance(32_000);
    expect(ticket.error).toBeInstanceOf(LockUnavailableError);
    await clock.advance(0);
    expect(await isFree(locks)).toBe(true);
  });

  it('a detach() that arrives after its repetition shortens no lease', async () => {
    const { clock, locks, store, memory } = faultyLocks();
    const lock = await locks.acquire(DOC);
    const ticket = await lock.detach({ ttlMs: 1_000 });
    await locks.extend(DOC, ticket, { ttlMs: 60_000 });
    await asked(memory).transfer(store.transfers[0]);
    await clock.advance(59_000);
    expect(await isFree(locks)).toBe(false);
  });

  it('resume() is repeated, and gets the lock that an earlier request has got', async () => {
    const { clock, other, otherStore, ticket, fencingToken } = await detached({}, 60_000);
    otherStore.fail('transfer', new UnansweredError('no reply, because the connection ended'));
    const resumed = outcome(other.resume(DOC, ticket));
    await clock.advance(50);
    expect([resumed.value, resumed.error]).toEqual([undefined, undefined]);
    otherStore.fail('transfer');
    await clock.advance(100);
    const lock = resumed.value as Lock;
    expect(lock.fencingToken).toBe(fencingToken);
    await clock.advance(120_000);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
    expect(await isFree(other)).toBe(true);
  });

  it('resume() fails after unavailableAfterMs, and the ticket works again', async () => {
    const { clock, locks, otherStore, resumed, ticket } = await unanswered();
    otherStore.fail('transfer');
    await clock.advance(2_000);
    expect(resumed.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    await clock.advance(40_000);
    (await locks.resume(DOC, ticket)).assertHeld();
  });

  it('extend() is repeated, and fails after unavailableAfterMs', async () => {
    const { clock, other, otherStore, ticket } = await detached({}, 60_000, { unavailableAfterMs: 500 });
    otherStore.lose('transfer', new Error('there is no connection'));
    const renewed = outcome(other.extend(DOC, ticket).then(() => true));
    await clock.advance(50);
    otherStore.lose('transfer');
    await clock.advance(100);
    expect(renewed.value).toBe(true);
    otherStore.lose('transfer', new LockUnavailableError('cut'));
    const failed = outcome(other.extend(DOC, ticket));
    await clock.advance(500);
    expect(failed.error).toBeInstanceOf(LockUnavailableError);
    // The ticket keeps the lock, so there is nothing to give back.
    expect(otherStore.transfers.every(({ from, to }) => from === to)).toBe(true);
  });

  it('a second resume() of the instance gets the lock before it was given back', async () => {
    const { clock, other, otherStore, ticket } = await detached({}, 60_000, { unavailableAfterMs: 500 });
    const noReply = new UnansweredError('no reply, because the connection ended');
    otherStore.fail('transfer', noReply);
    const first = outcome(other.resume(DOC, ticket));
    await clock.advance(50);
    otherStore.lose('transfer', noReply);
    await clock.advance(450);
    expect(first.error).toBeInstanceOf(LockUnavailableError);
    otherStore.fail('transfer');
    otherStore.lose('transfer');
    const lock = await other.resume(DOC, ticket);
    lock.assertHeld();
    await clock.advance(120_000);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('a second resume() of the instance gets the lock that a late request took away', async () => {
    const { clock, other, otherStore, ticket } = await unanswered('delay');
    await clock.advance(1_100);
    otherStore.arrive('transfer');
    const [late] = otherStore.transfers;
    await clock.advance(1);
    // The bytes of a dead connection arrive after the lock was given back.
    expect(await asked(otherStore).transfer(late)).toMatchObject({ status: 'transferred' });
    (await other.resume(DOC, ticket)).assertHeld();
  });

  it('a second resume() of the instance fails if others have the lock meanwhile', async () => {
    const { clock, locks, other, otherStore, ticket } = await unanswered();
    otherStore.fail('transfer');
    await clock.advance(1_000);
    const lock = await locks.resume(DOC, ticket);
    await expect(other.resume(DOC, ticket)).rejects.toThrow('Others hold the lock now');
    await clock.advance(20_000);
    lock.assertHeld();
  });

  it('a resume() that runs late is given back to the ticket', async () => {
    const { clock, locks, otherStore, resumed, ticket } = await unanswered('delay');
    await clock.advance(1_100);
    expect(resumed.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    const late = otherStore.transfers[0];
    otherStore.arrive('transfer');
    await clock.advance(500);
    expect(late.from).toMatch(/^detached:/);
    await clock.advance(1_000);
    (await locks.resume(DOC, ticket)).assertHeld();
  });

  it('a forged message does not release the lock that is being resumed', async () => {
    const { clock, other, otherStore, ticket } = await detached();
    otherStore.hold('transfer');
    const resumed = outcome(other.resume(DOC, ticket));
    await clock.advance(1);
    otherStore.reportWake(otherStore.transfers[0].to, '{lock_goods}:300');
    await clock.advance(1);
    otherStore.deliver('transfer');
    await clock.advance(1);
    expect(otherStore.releases).toEqual([]);
    const lock = resumed.value as Lock;
    await lock.extend();
    lock.assertHeld();
  });

  it('a shutdown waits for a resume(), and gives the lock back to the ticket', async () => {
    const { clock, locks, other, otherStore, ticket } = await detached();
    otherStore.hold('transfer');
    const resumed = outcome(other.resume(DOC, ticket));
    await clock.advance(1);
    const closed = outcome(other.engine.close(0).then(() => true));
    await clock.advance(500);
    expect(closed.value).toBeUndefined();
    otherStore.deliver('transfer');
    await clock.advance(1);
    // The engine looks at the end of the tick.
    await clock.advance(0);
    expect([closed.value, resumed.error]).toEqual([true, expect.any(LockClosedError)]);
    (await locks.resume(DOC, ticket)).assertHeld();
  });

  it('a shutdown during a resume() says that the lock may stay', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn');
    const { clock, other, otherStore, ticket } = await detached();
    otherStore.fail('transfer', new UnansweredError('no reply, because the connection ended'));
    const resumed = outcome(other.resume(DOC, ticket));
    await clock.advance(1);
    const closed = outcome(other.engine.close(0).then(() => true));
    await clock.advance(3_000);
    expect([closed.value, resumed.error]).toEqual([true, expect.any(LockClosedError)]);
    const what = 'goods:300 may stay locked for 30.0 s, because its transfer failed during the shutdown';
    expect(warn.mock.calls.map(String)).toContainEqual(expect.stringContaining(what));
    warn.mockRestore();
  });

  it('a shutdown ends a detach() with LockClosedError', async () => {
    const { clock, locks, store } = faultyLocks();
    const lock = await locks.acquire(DOC);
    store.fail('transfer', new Error('cut'));
    const ticket = outcome(lock.detach());
    const closed = outcome(locks.engine.close(0));
    await clock.advance(3_000);
    expect(closed.value === undefined && closed.error === undefined).toBe(true);
    expect(ticket.error).toBeInstanceOf(LockClosedError);
  });
});
