import { describe, expect, it } from '@jest/globals';
import { type LockService, LockTimeoutError, LockUnavailableError, MemoryStore } from 'nestjs-redis-lock';
import { createTestLocks, ManualClock } from 'nestjs-redis-lock/testing';
import type { Timer } from '../../../../lib/core/time/clock.js';
import { TimeoutPool } from '../../../../lib/core/time/timeout-pool.js';
import { QueuedOwners } from '../../../../lib/stores/token/queued-owners.js';
import { exitTimeOf } from '../../../support/exit-time.js';
import { FaultyStore } from '../../../support/faulty-store.js';
import { faultyLocks, outcome } from '../../../support/locks.js';

describe('the turns of the watchdog', () => {
  const turnsOf = (locks: LockService): ReadonlyMap<number, unknown> =>
    Reflect.get(Reflect.get(locks.engine, 'watchdog'), 'buckets');

  it.each([{ renew: false }, { maxHoldMs: 20_000 }])('leave nothing of thousands of holds with %j', async (options) => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    for (let i = 0; i < 3_000; i += 1) {
      const lock = await locks.acquire(`goods:${i}`, options);
      clock.jump(1);
      await lock.release();
    }
    expect(turnsOf(locks).size).toBeLessThan(5);
  });

  it('leave nothing of holds whose turn comes earlier or later than it was planned', async () => {
    const { clock, locks } = faultyLocks({ ttlMs: 30_000 });
    const lock = await locks.acquire('goods:300');
    for (let ttlMs = 30_000; ttlMs < 80_000; ttlMs += 1_000) {
      await lock.extend(ttlMs);
      clock.jump(10);
    }
    expect(turnsOf(locks).size).toBe(1);
  });

  it('are shared still: of a thousand locks, those that are held yet are renewed in one batch', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    const all = await Promise.all(Array.from({ length: 1_000 }, (_, id) => locks.acquire(`goods:${id}`)));
    expect(turnsOf(locks).size).toBe(1);
    await Promise.all(all.slice(0, 400).map((lock) => lock.release()));
    await clock.advance(10_001);
    expect(store.extendBatches.map((batch) => batch.length)).toEqual([600]);
    expect(all.slice(400).every((lock) => lock.expiresInMs > 29_000)).toBe(true);
    expect(turnsOf(locks).size).toBe(1);
  });

  it.each([{}, { lockDelayMs: 1_000 }])('are one batch for each server, with %j', async (options) => {
    const clock = new ManualClock();
    const store = new FaultyStore(new MemoryStore(clock));
    store.serverOf = (key) => (key.endsWith('9') ? undefined : `server${Number(key.at(-1)) % 2}`);
    const locks = createTestLocks({ clock, store, ttlMs: 30_000, ...options });
    for (const id of [1, 2, 3, 4, 9]) await locks.acquire(`goods:${id}`);
    await clock.advance(10_001);
    const ids = store.extendBatches.map((batch) => batch.map(({ keys: [key] }) => Number(key.at(-1))));
    expect(ids).toEqual([[1, 3], [2, 4], [9]]);
  });

  it('go on with who comes into an emptied one', async () => {
    const { clock, locks, store } = faultyLocks({ ttlMs: 30_000 });
    await (await locks.acquire('goods:300')).release();
    const lock = await locks.acquire('goods:301');
    await clock.advance(60_000);
    lock.assertHeld();
    expect(store.extendBatches.length).toBeGreaterThan(4);
  });
});

/** Notes of each timer whether it keeps the process alive. */
class NotingClock extends ManualClock {
  readonly scheduled: { readonly delayMs: number; readonly background: boolean }[] = [];
  calls = 0;

  override now(): number {
    this.calls += 1;
    return super.now();
  }

  override schedule(delayMs: number, task: () => void, background = false): Timer {
    this.scheduled.push({ delayMs, background });
    return super.schedule(delayMs, task);
  }
}

describe('timeouts that share a timer', () => {
  function pool() {
    const behind = new NotingClock();
    const clock = new TimeoutPool(behind, 1_000);
    const fired: string[] = [];
    const start = (name: string): Timer => clock.schedule(1_000, () => fired.push(name), true);
    return { behind, clock, fired, start };
  }

  it('keep no process alive, and leave alone what does', () => {
    const { behind, clock, start } = pool();
    for (const name of ['a', 'b', 'c']) start(name);
    expect(behind.scheduled).toEqual([{ delayMs: 1_000, background: true }]);
    clock.schedule(1_000, () => undefined);
    clock.schedule(1_000, () => undefined, false);
    expect(behind.scheduled.slice(1)).toEqual([1, 2].map(() => ({ delayMs: 1_000, background: false })));
  });

  it('are those of asks, of releases and of looks', () => {
    const clock = new NotingClock();
    const store = new FaultyStore(new MemoryStore(clock));
    for (const verb of ['acquire', 'release', 'inspect'] as const) store.hold(verb);
    const locks = createTestLocks({ clock, store, requestTimeoutMs: 1_000 });
    for (let i = 0; i < 100; i += 1) {
      outcome(locks.acquire(`goods:${i}`));
      outcome(locks.inspect(`goods:${i}`));
      const release = {
        resource: 'goods',
        key: `goods:${i}`,
        owner: 'one:1',
        mode: 'exclusive',
        leaseMs: 1_000,
        keepUntil: 0,
      } as const;
      locks.engine.releaser.releaseBehind(release);
    }
    expect(clock.scheduled).toEqual([{ delayMs: 1_000, background: true }]);
  });

  it('keep no process alive either when they go off and are set anew', async () => {
    const { behind, fired, start } = pool();
    start('a');
    await behind.advance(500);
    start('b');
    await behind.advance(600);
    expect(fired).toEqual(['a']);
    await behind.advance(500);
    expect(fired).toEqual(['a', 'b']);
    expect(behind.scheduled.filter(({ background }) => !background)).toEqual([]);
  });

  it.each([
    ['in the middle', [2]],
    ['side by side', [1, 2, 3]],
    ['at both ends', [0, 4]],
    ['from the youngest to the oldest', [4, 3, 2, 1, 0]],
  ])('leave the others in order when some are cancelled %s, twice', async (_, cancelled) => {
    const { behind, fired, start } = pool();
    const names = ['a', 'b', 'c', 'd', 'e'];
    const timers = names.map(start);
    for (const i of [...cancelled, ...cancelled]) timers[i].cancel();
    start('f');
    await behind.advance(1_000);
    expect(fired).toEqual([...names.filter((_name, i) => !cancelled.includes(i)), 'f']);
  });

  it('may be cancelled by one that goes off before them', async () => {
    const { behind, clock, fired, start } = pool();
    clock.schedule(1_000, () => later.cancel(), true);
    start('b');
    const later = start('c');
    start('d');
    await behind.advance(1_000);
    expect(fired).toEqual(['b', 'd']);
  });

  it('all go off when their clock is closed; those that come later have a timer each', async () => {
    const { behind, clock, fired, start } = pool();
    for (const name of ['a', 'b', 'c']) start(name);
    clock.close();
    expect(fired).toEqual(['a', 'b', 'c']);
    expect(behind.pending).toBe(0);
    start('d');
    start('e');
    expect(behind.pending).toBe(2);
    await behind.advance(1_000);
    expect(fired).toEqual(['a', 'b', 'c', 'd', 'e']);
  });
});

describe('closing', () => {
  it('ends looks at a lock that are never answered, those that come later included', async () => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    const lock = await locks.acquire('goods:300');
    await lock.release();
    store.hold('inspect');
    const looks = [1, 2, 3].map(() => outcome(locks.inspect('goods:300')));
    await locks.engine.close(0);
    await clock.advance(0);
    for (const { error } of looks) expect(error).toBeInstanceOf(LockUnavailableError);
    const late = outcome(locks.inspect('goods:300'));
    await clock.advance(1_000);
    expect(late.error).toBeInstanceOf(LockUnavailableError);
    expect(clock.pending).toBe(0);
  });

  it('is not needed for a process to end that is done with its locks', async () => {
    const done = `
      const { service } = LockRuntime.start({ store: memory(), requestTimeoutMs: 8_000 });
      await (await service.acquire('goods:300')).release();
    `;
    expect(await exitTimeOf(done, 12_000)).toBeLessThan(3_000);
  });
});

describe('a rest of minHoldMs', () => {
  it('is what a LockTimeoutError of the same instance tells', async () => {
    const { clock, locks } = faultyLocks();
    const lock = await locks.acquire('goods:300', { minHoldMs: 5_000 });
    await clock.advance(1_000);
    await lock.release();
    await clock.advance(500);
    const refused = { code: 'LOCK_TIMEOUT', remainingMs: 3_500 };
    await expect(locks.acquire('goods:300', { waitMs: 0 })).rejects.toMatchObject(refused);
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(1_500);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ remainingMs: 2_000 });
  });
});

describe('owners that may stand in a queue', () => {
  const MINUTE = 60_000;

  it('are known with their keys until they have left', () => {
    const owners = new QueuedOwners();
    owners.add('one:1', 'goods:300', 0);
    expect([owners.has('one:1'), owners.keyOf('one:1')]).toEqual([true, 'goods:300']);
    owners.delete('one:1');
    expect([owners.has('one:1'), owners.keyOf('one:1'), owners.size]).toEqual([false, undefined, 0]);
  });

  it('are forgotten after two minutes of others’ asks, having left unheard; those that ask still are not', () => {
    const owners = new QueuedOwners();
    owners.add('waiting', 'goods:300', 0);
    for (let i = 0; i < 1_000; i += 1) owners.add(`gone:${i}`, 'goods:301', 0);
    for (let now = 3_000; now < 2 * MINUTE; now += 3_000) owners.add('waiting', 'goods:300', now);
    expect(owners.size).toBe(1_001);
    owners.add('new', 'goods:302', 2 * MINUTE);
    expect(owners.has('gone:0')).toBe(false);
    expect([owners.size, owners.keyOf('waiting'), owners.keyOf('new')]).toEqual([2, 'goods:300', 'goods:302']);
  });
});

describe('a line of thousands', () => {
  const LENGTH = 2_000;

  /** How often the clock is read for each of so many callers of one instance; in turns with another one, if it has a rival. */
  async function readings(length: number, withRival: boolean): Promise<number> {
    const clock = new NotingClock();
    const store = new MemoryStore(clock);
    const options = { clock, store, maxLocalPasses: 0, waitMs: 600_000 };
    const [locks, rival] = [createTestLocks(options), createTestLocks(options)];
    const first = await rival.acquire('goods:300');
    const all = Array.from({ length }, () => locks.using('goods:300', () => undefined));
    if (withRival) all.push(...Array.from({ length }, () => rival.using('goods:300', () => undefined)));
    await clock.advance(0);
    clock.calls = 0;
    await first.release();
    await Promise.all(all);
    return clock.calls / all.length;
  }

  it.each([false, true])('is not walked for each of its grants (a rival in the queue: %j)', async (withRival) => {
    expect(await readings(LENGTH, withRival)).toBeLessThan(LENGTH / 20);
  });
});

describe('a caller who comes while the ask of those who have left is unanswered', () => {
  it.each([1, 3])('waits no longer than its waitMs (%i of them)', async (count) => {
    const { clock, locks, store } = faultyLocks({ requestTimeoutMs: 1_000 });
    store.hold('acquire');
    const left = outcome(locks.acquire('goods:300', { waitMs: 1_500 }));
    await clock.advance(5_000);
    expect(left.error).toBeInstanceOf(LockUnavailableError);
    const later = Array.from({ length: count }, () => outcome(locks.acquire('goods:300', { waitMs: 1_500 })));
    await clock.advance(5_000);
    for (const { error } of later) expect(error).toBeInstanceOf(LockUnavailableError);
  });
});
