import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUnavailableError } from 'nestjs-redis-lock';
import { Admission, MOST_IN_FLIGHT } from '../../lib/core/acquire/admission.js';
import { faultyLocks, KEY, outcome } from '../support/locks.js';

/** A server for which a test says what is read from it. */
class Server {
  readonly server = undefined;
  received = 0;
  lostAt = -Infinity;
  probes = 0;
  /** Whether it replies to probes. */
  isAlive = false;

  probe(): void {
    this.probes += 1;
    if (this.isAlive) this.received += 1;
  }
}

function busyLocks(options: Parameters<typeof faultyLocks>[0] = {}) {
  const server = new Server();
  const found = faultyLocks({ unavailableAfterMs: 500, ...options }, () => [server]);
  return { ...found, server };
}

describe('a server from which nothing is read', () => {
  it('is silent after the time limit of a request, and gets a probe after half of it', async () => {
    const { clock, locks, store, server } = busyLocks();
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(499);
    expect(server.probes).toBe(0);
    await clock.advance(1);
    expect(server.probes).toBe(1);
    await clock.advance(499);
    expect(locks.engine.servers()[0].isUp).toBe(true);
    await clock.advance(1);
    expect(locks.engine.servers()[0].isUp).toBe(false);
    await clock.advance(1_000);
    expect(call.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    expect(server.probes).toBe(1);
  });

  it('is not silent while it replies to probes, whatever a request takes', async () => {
    const { clock, locks, store, server } = busyLocks();
    server.isAlive = true;
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 60_000, ttlMs: 60_000 }));
    await clock.advance(20_000);
    expect(call).toEqual({});
    expect(server.probes).toBeGreaterThan(10);
    store.deliver('acquire');
    await clock.advance(0);
    expect(await call.value?.release()).toBe(true);
    expect(locks.engine.servers()[0].isUp).toBe(true);
  });

  it('is silent within 1.1 times the limit after the last sign of life', async () => {
    const { clock, locks, store, server } = busyLocks();
    store.hold('acquire');
    outcome(locks.acquire('goods:300', { waitMs: 60_000 }));
    await clock.advance(650);
    server.received += 1;
    await clock.advance(1_000);
    expect(locks.engine.servers()[0].isUp).toBe(true);
    await clock.advance(100);
    expect(locks.engine.servers()[0].isUp).toBe(false);
  });

  it('keeps a release waiting, and no longer than an acquire', async () => {
    const { clock, locks, store, server } = busyLocks();
    const lock = await locks.acquire('goods:300');
    store.hold('release');
    const release = outcome(lock.release());
    await clock.advance(650);
    server.received += 1;
    await clock.advance(1_000);
    expect(release).toEqual({});
    await clock.advance(100);
    expect(release.error).toBeInstanceOf(LockUnavailableError);
  });
});

describe('a connection that has ended', () => {
  it('fails a request that was sent before, although the next connection brings replies', async () => {
    const { clock, locks, store, server } = busyLocks();
    server.isAlive = true;
    const lock = await locks.acquire('goods:300');
    store.hold('release');
    const release = outcome(lock.release());
    await clock.advance(200);
    server.lostAt = clock.now();
    server.received += 1;
    await clock.advance(700);
    server.received += 1;
    expect(release).toEqual({});
    await clock.advance(100);
    expect(release.error).toBeInstanceOf(LockUnavailableError);
  });
});

describe('a connection that was replaced', () => {
  it('does not fail a request that was sent afterwards', async () => {
    const { clock, locks, store, server } = busyLocks();
    server.isAlive = true;
    await locks.using('goods:300', () => undefined);
    server.lostAt = clock.now();
    await clock.advance(1);
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 60_000, ttlMs: 60_000 }));
    await clock.advance(5_000);
    expect(locks.engine.servers()[0].isUp).toBe(true);
    store.deliver('acquire');
    await clock.advance(0);
    expect(await call.value?.release()).toBe(true);
  });
});

describe('a blocked event loop', () => {
  it.each([600, 1_100, 3_000, 60_000])('of %i ms is not silence of the server', async (blockedMs) => {
    const { clock, locks, store, server } = busyLocks();
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 120_000, ttlMs: 120_000 }));
    await clock.advance(50);
    clock.jump(blockedMs);
    // The clock runs the timers that are due, and then the loop reads what has arrived.
    await clock.advance(300);
    expect(locks.engine.servers()[0].isUp).toBe(true);
    server.received += 1;
    store.deliver('acquire');
    await clock.advance(0);
    expect(await call.value?.release()).toBe(true);
  });
});

describe('a request that was not delivered in time', () => {
  it('is repeated, also for a caller that does not wait for others', async () => {
    const { clock, locks, store } = busyLocks();
    const acquire = store.acquire.bind(store);
    let expired = 0;
    store.acquire = (request) => (++expired <= 3 ? Promise.resolve({ status: 'expired' }) : acquire(request));
    const call = outcome(locks.tryAcquire('goods:300'));
    await clock.advance(200);
    expect(await call.value?.release()).toBe(true);
    expect(expired).toBe(4);
  });

  it('fails a caller whose time is over', async () => {
    const { clock, locks, store } = busyLocks();
    store.acquire = () => Promise.resolve({ status: 'expired' });
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 5_000 }));
    const trying = outcome(locks.tryAcquire('goods:301'));
    await clock.advance(499);
    expect(trying).toEqual({});
    await clock.advance(1);
    expect(trying.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    await clock.advance(4_499);
    expect(waiting).toEqual({});
    await clock.advance(1);
    expect((waiting.error as Error).message).toContain('the request could not be delivered in time');
    expect(store.releases).toEqual([]);
  });
});

describe('a request that was not delivered, beside what is known', () => {
  it('leaves a caller behind another holder with the error of a busy lock', async () => {
    const { clock, locks, store, stranger } = busyLocks();
    await stranger.take(KEY);
    const call = outcome(locks.acquire('goods:300', { waitMs: 3_000 }));
    await clock.advance(0);
    store.acquire = () => Promise.resolve({ status: 'expired' });
    await clock.advance(3_000);
    expect(call.error).toBeInstanceOf(LockTimeoutError);
  });

  it('lets a caller request several locks one by one', async () => {
    const { clock, locks, store } = busyLocks();
    const acquire = store.acquire.bind(store);
    store.acquire = (request) => (request.keys.length > 1 ? Promise.resolve({ status: 'expired' }) : acquire(request));
    const call = outcome(locks.tryAcquire(['goods:300', 'goods:301']));
    await clock.advance(100);
    expect(await call.value?.release()).toBe(true);
    expect(store.acquires).toHaveLength(2);
  });
});

describe('a request that could not be sent', () => {
  it('leaves its place to others', async () => {
    const { clock, locks, store } = busyLocks();
    const acquire = store.acquire.bind(store);
    store.acquire = (() => undefined) as never;
    const calls = Array.from({ length: MOST_IN_FLIGHT }, (_, id) => outcome(locks.tryAcquire(`broken:${id}`)));
    await clock.advance(1_000);
    for (const { error } of calls) expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    store.acquire = acquire;
    const call = outcome(locks.tryAcquire('goods:300'));
    await clock.advance(0);
    expect(await call.value?.release()).toBe(true);
  });
});

describe('a crowd of requests', () => {
  /** Starts as many requests as may be without a reply. Their replies are held back. */
  async function crowd() {
    const found = busyLocks();
    found.server.isAlive = true;
    found.store.hold('acquire');
    const options = { waitMs: 60_000, ttlMs: 60_000 };
    const calls = Array.from({ length: MOST_IN_FLIGHT }, (_, id) =>
      outcome(found.locks.acquire(`goods:${id}`, options)),
    );
    await found.clock.advance(0);
    return { ...found, options, calls };
  }

  it('waits in this process in the order of the calls, and renewals and releases do not', async () => {
    const { clock, locks, store, calls, options } = await crowd();
    const late = ['a', 'b', 'c'].map((id) => outcome(locks.acquire(`late:${id}`, options)));
    await clock.advance(0);
    expect(store.acquires).toHaveLength(MOST_IN_FLIGHT);
    store.deliver('acquire');
    store.hold('acquire');
    await clock.advance(0);
    expect(store.acquires.slice(MOST_IN_FLIGHT).map(({ keys }) => keys[0])).toEqual(
      ['a', 'b', 'c'].map((id) => `{lock_late}:${id}`),
    );
    store.deliver('acquire');
    await clock.advance(0);
    for (const { value } of [...calls, ...late]) expect(await value?.release()).toBe(true);
  });

  it('refuses a caller whose time is over, without an outage', async () => {
    const { clock, locks, options } = await crowd();
    const trying = outcome(locks.tryAcquire('late:a'));
    const waiting = outcome(locks.acquire('late:b', { ...options, waitMs: 2_000 }));
    const several = outcome(locks.acquire(['late:c', 'late:d'], { ...options, waitMs: 2_000 }));
    await clock.advance(499);
    expect(trying).toEqual({});
    await clock.advance(1);
    expect(trying.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', resource: 'late:a' });
    expect((trying.error as Error).message).toContain(`${MOST_IN_FLIGHT} requests of this process have no reply yet`);
    await clock.advance(1_500);
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
    expect(several.error).toBeInstanceOf(LockUnavailableError);
    expect(locks.engine.servers()[0].isUp).toBe(true);
  });

  it('refuses a caller beyond maxWaiting because of those that wait', async () => {
    const { clock, locks, options } = await crowd();
    outcome(locks.acquire('late:a', options));
    await clock.advance(0);
    const refused = outcome(locks.acquire('late:a', { ...options, maxWaiting: 1 }));
    await clock.advance(0);
    expect(refused.error).toMatchObject({ code: 'LOCK_TIMEOUT', isQueueFull: true });
  });

  it('is left by a caller that gives up, without a request', async () => {
    const { clock, locks, store, options } = await crowd();
    const abort = new AbortController();
    const late = outcome(locks.acquire('late:a', { ...options, signal: abort.signal }));
    await clock.advance(0);
    abort.abort(new Error('gone'));
    await clock.advance(0);
    expect(late.error).toEqual(new Error('gone'));
    expect(store.releases).toEqual([]);
  });

  it('keeps no place of a request that was sent, however long the crowd lasts', () => {
    const lane = new Admission({}, 1).laneOf('a');
    expect(lane.tryEnter()).toBe(true);
    let sent = 0;
    const send = (): void => void (sent += 1);
    for (let i = 0; i < 10; i += 1) lane.wait(send);
    const places = Array.from({ length: 100_000 }, () => {
      const place = lane.wait(send);
      lane.leave();
      return place;
    });
    expect([sent, lane.length]).toEqual([100_000, 10]);
    for (const place of places) place.cancel();
    expect(lane.length).toBe(0);
  });

  it('does not keep a key whose server is not known because the store has thrown', async () => {
    const { clock, locks } = faultyLocks({ unavailableAfterMs: 500 }, undefined, (key) => {
      if (key.endsWith(':301')) throw new Error('no such server');
      return 'one';
    });
    const call = outcome(locks.acquire('goods:301', { waitMs: 2_000 }));
    await clock.advance(2_000);
    expect(call.error).toMatchObject({ code: 'LOCK_UNAVAILABLE' });
    await locks.using('goods:300', () => undefined);
    expect(locks.engine.lines.size).toBe(0);
  });

  it('has a place of its own on each server', () => {
    const admission = new Admission({ serverOf: (key) => key[0] }, 1);
    const [a, b] = ['a1', 'b1'].map((key) => admission.laneOf(key));
    expect(admission.laneOf('a2')).toBe(a);
    expect([a.tryEnter(), a.tryEnter(), b.tryEnter()]).toEqual([true, false, true]);
    const sent: number[] = [];
    const places = [1, 2, 3].map((n) => a.wait(() => sent.push(n)));
    places[0].cancel();
    places[0].cancel();
    expect(admission.waiting).toBe(2);
    b.leave();
    expect(sent).toEqual([]);
    a.leave();
    expect(sent).toEqual([2]);
    a.leave();
    expect(sent).toEqual([2, 3]);
    places[1].cancel();
    expect(admission.waiting).toBe(0);
  });
});

describe('callers beyond maxWaiting', () => {
  it('are refused with an error of their own, without a stack', async () => {
    const { clock, locks } = busyLocks();
    await locks.acquire('goods:300');
    const options = { maxWaiting: 1 };
    outcome(locks.acquire('goods:300', options));
    await clock.advance(0);
    const refused = [1, 2].map(() => outcome(locks.acquire('goods:300', options)));
    await clock.advance(0);
    const [first, second] = refused.map(({ error }) => error as LockTimeoutError);
    expect(first).toBeInstanceOf(LockTimeoutError);
    expect(second).not.toBe(first);
    expect(Object.entries(second)).toEqual(Object.entries(first));
    expect(second.message).toBe(first.message);
    expect(second).toMatchObject({ isQueueFull: true, waitingHere: 1, isOwn: true });
    expect(second.stack).not.toContain('\n    at ');
  });
});
