import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  type LeadOptions,
  type Lock,
  LockClosedError,
  LockConfigError,
  LockKeyError,
  LockLostError,
  type LockService,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { deferred, outcome } from '../support/async.js';
import { faultyLocks } from '../support/locks.js';

const KEY = '{lock_report}';

/** Leads `report`, and records what happens to the candidate. */
function candidate(locks: LockService, name: string, log: string[] = [], options: LeadOptions = {}) {
  const terms: Lock[] = [];
  const leadership = locks.lead('report', {
    ttlMs: 3_000,
    ...options,
    onElected: (lock) => {
      terms.push(lock);
      log.push(`${name} elected`);
      return options.onElected?.(lock);
    },
    onDeposed: (reason) => {
      log.push(`${name} deposed: ${(reason as Error).name}`);
      return options.onDeposed?.(reason);
    },
  });
  return { leadership, terms, log };
}

/** Records the lines of a level that are logged. */
function logged(level: 'warn' | 'error'): string[] {
  const lines: string[] = [];
  jest.spyOn(Logger.prototype, level).mockImplementation((line: string) => void lines.push(line));
  return lines;
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('a candidate', () => {
  it('leads if nobody else does, from its first callback on', async () => {
    const { clock, locks } = faultyLocks();
    const { leadership, terms } = candidate(locks, 'one');
    expect(leadership).toMatchObject({ isLeader: false, lock: undefined, signal: { aborted: true } });
    await clock.advance(0);
    expect(leadership.isLeader).toBe(true);
    expect(leadership.lock).toBe(terms[0]);
    expect(leadership.signal).toBe(terms[0].signal);
    await clock.advance(60_000);
    expect([leadership.isLeader, terms.length]).toEqual([true, 1]);
  });

  it('is the only leader, and is followed by the first that waits when it is closed', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const log: string[] = [];
    const one = candidate(locks, 'one', log);
    await clock.advance(0);
    const two = candidate(neighbour().locks, 'two', log);
    const three = candidate(neighbour().locks, 'three', log);
    await clock.advance(60_000);
    expect([one, two, three].map(({ leadership }) => leadership.isLeader)).toEqual([true, false, false]);
    const closed = outcome(one.leadership.close().then(() => 'closed'));
    expect(one.leadership.isLeader).toBe(false);
    expect(one.terms[0].signal.reason).toBeInstanceOf(LockClosedError);
    await clock.advance(0);
    expect(closed).toEqual({ value: 'closed' });
    expect(log).toEqual(['one elected', 'one deposed: LockClosedError', 'two elected']);
    expect(two.leadership.lock?.fencingToken).toBeGreaterThan(one.terms[0].fencingToken);
    await clock.advance(60_000);
    expect(log).toHaveLength(3);
  });

  it('takes the lock for itself, and not as a nested hold of its caller', async () => {
    const { clock, locks } = faultyLocks();
    const { leadership } = await locks.using('report', async () => {
      const started = candidate(locks, 'one');
      await clock.advance(100);
      expect(started.leadership.isLeader).toBe(false);
      return started;
    });
    await clock.advance(100);
    expect(leadership.isLeader).toBe(true);
  });

  it('runs its callbacks outside of the storages of its caller, and inside the hold', async () => {
    const { clock, locks } = faultyLocks();
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    storage.run('request', () =>
      candidate(locks, 'one', [], {
        onElected: async (lock) => {
          seen.push(storage.getStore(), locks.current('report') === lock);
          await locks.using('report', { waitMs: 0 }, ({ fencingToken }) =>
            seen.push(fencingToken === lock.fencingToken),
          );
        },
      }),
    );
    await clock.advance(0);
    expect(seen).toEqual([undefined, true, true]);
  });

  it('has a lease of its own, whatever the defaults of the module are', async () => {
    const { clock, locks, store } = faultyLocks({
      ttlMs: 60_000,
      maxHoldMs: 70_000,
      minHoldMs: 10_000,
      waitMs: 0,
    });
    const { leadership } = candidate(locks, 'one', [], { ttlMs: 6_000 });
    await clock.advance(120_000);
    expect(leadership.isLeader).toBe(true);
    expect(store.acquires.map(({ leaseMs }) => leaseMs)).toEqual([6_000]);
    await leadership.close();
    expect(store.releases.map(({ closedForMs }) => closedForMs)).toEqual([0]);
  });
});

describe('the end of a term', () => {
  it('comes at the local deadline if Redis does not reply, and the candidate leads again later', async () => {
    const { clock, locks, store } = faultyLocks();
    const { leadership, terms, log } = candidate(locks, 'one');
    await clock.advance(0);
    for (const verb of ['extend', 'acquire', 'release'] as const) store.lose(verb, new LockUnavailableError('down'));
    await clock.advance(2_900);
    expect(leadership.isLeader).toBe(true);
    await clock.advance(100);
    expect(leadership.isLeader).toBe(false);
    expect(terms[0].signal.reason).toBeInstanceOf(LockLostError);
    await clock.advance(60_000);
    expect(log).toEqual(['one elected', 'one deposed: LockLostError']);
    for (const verb of ['extend', 'acquire', 'release'] as const) store.lose(verb);
    await clock.advance(10_000);
    expect(leadership.isLeader).toBe(true);
    expect(terms).toHaveLength(2);
    expect(leadership.signal).toBe(terms[1].signal);
  });

  it('is seen by isLeader before any timer has run', async () => {
    const { clock, locks } = faultyLocks();
    const { leadership, terms } = candidate(locks, 'one');
    await clock.advance(0);
    clock.jump(3_000);
    expect(leadership.isLeader).toBe(false);
    expect(leadership.lock).toBeUndefined();
    expect(terms[0].signal.aborted).toBe(false);
  });

  it('lets another instance lead within a lease if the leader is gone', async () => {
    const { clock, locks, store, neighbour } = faultyLocks();
    candidate(locks, 'one');
    await clock.advance(0);
    const two = candidate(neighbour().locks, 'two');
    await clock.advance(5_000);
    // As after kill -9: nothing more is sent.
    for (const verb of ['extend', 'acquire', 'release'] as const) store.delay(verb);
    await clock.advance(2_000);
    expect(two.leadership.isLeader).toBe(false);
    await clock.advance(1_100);
    expect(two.leadership.isLeader).toBe(true);
  });

  it('begins no new campaign before both callbacks have settled', async () => {
    const { clock, locks, stranger, store } = faultyLocks();
    const [work, farewell] = [deferred(), deferred()];
    const { leadership, terms, log } = candidate(locks, 'one', [], {
      onElected: () => work.promise,
      onDeposed: () => farewell.promise,
    });
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_100);
    await stranger.leave(KEY);
    expect(log).toEqual(['one elected', 'one deposed: LockLostError']);
    await clock.advance(60_000);
    work.resolve();
    await clock.advance(60_000);
    expect(store.acquires).toHaveLength(1);
    farewell.resolve();
    await clock.advance(2_000);
    expect(leadership.isLeader).toBe(true);
    expect(terms).toHaveLength(2);
  });
});

const noDisk = (): never => {
  throw new Error('no disk');
};

describe('a callback that fails', () => {
  it.each<[string, LeadOptions['onElected']]>([
    ['throws', noDisk],
    ['rejects', async () => noDisk()],
  ])('steps down if onElected %s, with pauses that grow', async (_how, onElected) => {
    const errors = logged('error');
    const { clock, locks } = faultyLocks();
    const started: number[] = [];
    const { log } = candidate(locks, 'one', [], {
      onElected: (lock) => {
        started.push(clock.now());
        return onElected?.(lock);
      },
    });
    await clock.advance(120_000);
    const pauses = started.slice(1).map((at, i) => at - started[i]);
    expect(pauses.slice(0, 6)).toEqual([1_500, 3_000, 6_000, 12_000, 22_500, 22_500]);
    expect(log.slice(0, 3)).toEqual(['one elected', 'one deposed: Error', 'one elected']);
    expect(errors[0]).toBe('The leader of report failed and steps down: no disk');
  });

  it('leaves the lock to others at once', async () => {
    logged('error');
    const { clock, locks, neighbour } = faultyLocks();
    const log: string[] = [];
    const work = deferred();
    candidate(locks, 'one', log, { onElected: () => work.promise });
    await clock.advance(0);
    candidate(neighbour().locks, 'two', log);
    await clock.advance(10_000);
    work.reject(new Error('no disk'));
    await clock.advance(0);
    expect(log).toEqual(['one elected', 'one deposed: Error', 'two elected']);
    await clock.advance(60_000);
    expect(log).toHaveLength(3);
  });

  it('is logged if onDeposed throws, and the candidate goes on', async () => {
    const errors = logged('error');
    const { clock, locks, stranger } = faultyLocks();
    const { leadership } = candidate(locks, 'one', [], { onDeposed: noDisk });
    await clock.advance(0);
    await stranger.steal(KEY);
    await clock.advance(1_100);
    await stranger.leave(KEY);
    await clock.advance(5_000);
    expect(leadership.isLeader).toBe(true);
    expect(errors).toEqual(['The leader of report failed in onDeposed: no disk']);
  });

  it('is not logged if it only follows the end of its term', async () => {
    const errors = logged('error');
    const { clock, locks } = faultyLocks();
    const { leadership } = candidate(locks, 'one', [], {
      onElected: ({ signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    });
    await clock.advance(0);
    await leadership.close();
    expect(errors).toEqual([]);
  });

  it.each<[string, LeadOptions['onElected']]>([
    ['returns', () => 'done'],
    ['releases its hold', (lock) => lock.release()],
  ])('does not end the term if onElected %s', async (_what, onElected) => {
    const { clock, locks } = faultyLocks();
    const { leadership, log } = candidate(locks, 'one', [], { onElected });
    await clock.advance(600_000);
    expect([leadership.isLeader, log]).toEqual([true, ['one elected']]);
    await leadership.close();
    expect(await locks.inspect('report')).toBeNull();
  });
});

describe('a leadership that is closed', () => {
  it('holds the lock until its callbacks have settled', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const [work, farewell] = [deferred(), deferred()];
    const { leadership } = candidate(locks, 'one', [], {
      onElected: () => work.promise,
      onDeposed: () => farewell.promise,
    });
    await clock.advance(0);
    const two = candidate(neighbour().locks, 'two');
    const closed = outcome(leadership.close().then(() => 'closed'));
    await clock.advance(10_000);
    farewell.resolve();
    await clock.advance(10_000);
    expect([leadership.isLeader, two.leadership.isLeader]).toEqual([false, false]);
    work.resolve();
    await clock.advance(0);
    expect(two.leadership.isLeader).toBe(true);
    expect(closed).toEqual({ value: 'closed' });
  });

  it('stops waiting, leaves nothing in the queue and calls neither function', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const first = await locks.acquire('report');
    const { leadership, log } = candidate(neighbour().locks, 'two');
    await clock.advance(10_000);
    expect((await locks.inspect('report'))?.waiting).toHaveLength(1);
    await leadership.close();
    expect((await locks.inspect('report'))?.waiting).toEqual([]);
    await first.release();
    await clock.advance(10_000);
    expect(log).toEqual([]);
    expect(leadership.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('gives back a lock that it is granted while it is closed', async () => {
    const { clock, locks, store } = faultyLocks();
    store.hold('acquire');
    const { leadership, log } = candidate(locks, 'one');
    await clock.advance(0);
    const closed = leadership.close();
    store.deliver('acquire');
    await clock.advance(0);
    await closed;
    expect(log).toEqual([]);
    expect(await locks.inspect('report')).toBeNull();
  });

  it('can be closed twice, by a signal and by await using', async () => {
    const { clock, locks } = faultyLocks();
    const abort = new AbortController();
    const one = candidate(locks, 'one', [], { signal: abort.signal });
    await clock.advance(0);
    abort.abort(new Error('enough'));
    expect(one.terms[0].signal.reason).toMatchObject({ message: 'enough' });
    await one.leadership.close();
    await one.leadership.close();
    expect(one.log).toEqual(['one elected', 'one deposed: Error']);
    const aborted = candidate(locks, 'two', [], { signal: abort.signal });
    await clock.advance(1_000);
    expect(aborted.log).toEqual([]);
    let three: ReturnType<typeof candidate> | undefined;
    {
      three = candidate(locks, 'three');
      await using leadership = three.leadership;
      await clock.advance(0);
      expect(leadership.isLeader).toBe(true);
    }
    expect(three.log).toEqual(['three elected', 'three deposed: LockClosedError']);
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
  });

  it('does not wait for a callback that closes it', async () => {
    const { clock, locks } = faultyLocks();
    const steps: string[] = [];
    const { leadership } = candidate(locks, 'one', [], {
      onElected: async () => {
        await leadership.close();
        steps.push('closed');
      },
    });
    await clock.advance(0);
    expect(steps).toEqual(['closed']);
    expect(await locks.inspect('report')).toBeNull();
  });

  it('steps down at shutdown within shutdownGraceMs, and those that wait end quietly', async () => {
    const errors = logged('error');
    const { clock, locks, neighbour } = faultyLocks();
    const hung = new Promise(() => undefined);
    const log: string[] = [];
    candidate(locks, 'hangs', log, { onElected: () => hung });
    candidate(locks, 'waits', log);
    await clock.advance(0);
    const two = candidate(neighbour().locks, 'two', log);
    await clock.advance(0);
    const closed = outcome(locks.engine.close(2_000).then(() => 'closed'));
    await clock.advance(1_900);
    expect(two.leadership.isLeader).toBe(false);
    await clock.advance(200);
    expect(closed).toEqual({ value: 'closed' });
    expect(log).toEqual(['hangs elected', 'hangs deposed: LockClosedError', 'two elected']);
    expect(errors).toEqual([]);
    const late = candidate(locks, 'late', log);
    await clock.advance(1_000);
    await late.leadership.close();
    expect(log).toHaveLength(3);
  });
});

describe('lead()', () => {
  it('refuses options that cannot work', () => {
    const { locks, store } = faultyLocks();
    expect(() => locks.lead('report', { ttlMs: 1 })).toThrow(
      new LockConfigError('lead(): ttlMs is 1; expected a number of milliseconds from 50 to 31536000000.'),
    );
    expect(() => locks.lead('report', { waitMs: 5 } as LeadOptions)).toThrow(/unknown option waitMs/);
    expect(() => locks.lead('', {})).toThrow(LockKeyError);
    store.less.shortestLease = { ms: 10_000, reason: 'its clock is coarse' };
    expect(() => locks.lead('report', { ttlMs: 3_000 })).toThrow(LockConfigError);
    expect(store.acquires).toEqual([]);
  });

  it('campaigns with growing pauses if Redis refuses the lock permanently, and ends them when closed', async () => {
    const { clock, locks, store } = faultyLocks();
    store.lose('acquire', new LockUnavailableError('no permission', { permanent: true, refusal: 'NOPERM' }));
    const { leadership } = candidate(locks, 'one');
    await clock.advance(100_000);
    expect(store.acquires.length).toBeLessThan(10);
    store.lose('acquire');
    await clock.advance(30_000);
    expect(leadership.isLeader).toBe(true);
    store.lose('acquire', new LockUnavailableError('no permission', { permanent: true, refusal: 'NOPERM' }));
    const two = candidate(locks, 'two');
    await leadership.close();
    await clock.advance(10);
    await two.leadership.close();
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
  });
});

describe('the work of a leader that goes on after its term', () => {
  it('is logged once after 10 s, and keeps the lock if the leader steps down', async () => {
    const warnings = logged('warn');
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const leadership = locks.lead('report', { ttlMs: 3_000, onElected: () => work.promise });
    await clock.advance(60_000);
    expect(warnings).toEqual([]);
    const closed = leadership.close();
    await clock.advance(9_999);
    expect(warnings).toEqual([]);
    await clock.advance(60_000);
    const line = 'The leader of report has not ended 10 s after its term. Its lock is not released until it has.';
    expect(warnings).toEqual([line]);
    expect(await locks.inspect('report')).not.toBeNull();
    work.resolve();
    await clock.advance(0);
    await closed;
    expect(await locks.inspect('report')).toBeNull();
  });

  it('is logged if the lock was lost, and lets another process lead', async () => {
    const warnings = logged('warn');
    const { clock, locks, neighbour } = faultyLocks();
    const work = deferred();
    locks.lead('report', { ttlMs: 3_000, onElected: () => work.promise });
    await clock.advance(0);
    const other = neighbour();
    const next = other.locks.lead('report', { ttlMs: 3_000 });
    await clock.advance(10);
    await other.locks.forceRelease('report');
    await clock.advance(11_000);
    const line =
      'The leader of report has not ended 10 s after its term. This process does not lead again until it has.';
    expect(warnings.at(-1)).toBe(line);
    expect(next.isLeader).toBe(true);
  });

  it('is not logged if it ends within 10 s, and leaves no timer', async () => {
    const warnings = logged('warn');
    const { clock, locks } = faultyLocks();
    const work = deferred();
    const leadership = locks.lead('report', { onElected: () => work.promise });
    await clock.advance(0);
    const closed = leadership.close();
    await clock.advance(9_000);
    work.resolve();
    await clock.advance(0);
    await closed;
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
    expect(warnings).toEqual([]);
  });
});

describe('a step down of the whole instance', () => {
  it('closes its leaderships, and leaves other locks as they are', async () => {
    const { clock, locks, neighbour } = faultyLocks();
    const reasons: unknown[] = [];
    const leadership = locks.lead('report', { onDeposed: (reason) => reasons.push(reason) });
    const lock = await locks.acquire('goods:300');
    await clock.advance(0);
    const next = neighbour().locks.lead('report');
    await clock.advance(10);
    locks.engine.beginShutdown();
    await clock.advance(0);
    expect([leadership.isLeader, next.isLeader]).toEqual([false, true]);
    expect(reasons).toEqual([expect.any(LockClosedError)]);
    lock.assertHeld();
    await clock.advance(60_000);
    expect([leadership.isLeader, next.isLeader]).toEqual([false, true]);
  });
});
