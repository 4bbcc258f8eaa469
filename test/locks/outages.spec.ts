import { describe, expect, it, jest } from '@jest/globals';
import {
  type CommonLockOptions,
  LockConfigError,
  LockReplicationError,
  type LockService,
  LockTimeoutError,
  LockUnavailableError,
} from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { deferred, outcome } from '../support/async.js';
import { MOST_ON_THEIR_WAY } from '../../lib/engine/link.js';
import { keptBy } from '../support/inside.js';
import { faultyLocks, KEY } from '../support/locks.js';

const cutOff = new Error('connect ECONNREFUSED 127.0.0.1:6379');
const readOnly = new LockUnavailableError('this server is a read-only replica', { refusal: 'READONLY' });

const start = (options = {}) => faultyLocks({ unavailableAfterMs: 500, ...options });
type Started = ReturnType<typeof start>;

/** No request gets a reply. */
function startWithout(options = {}): Started {
  const all = start(options);
  all.store.delay('acquire');
  return all;
}

/** No request gets a reply, and the store reports every 50 ms that it cannot be reached. */
async function outage({ clock, store }: Started, forMs: number, server?: string): Promise<void> {
  store.delay('acquire');
  for (let passedMs = 0; passedMs < forMs; passedMs += 50) {
    store.reportUnreachable(cutOff, server);
    await clock.advance(50);
  }
}

function end({ store }: Started): void {
  store.arrive('acquire');
  store.reportReachable();
}

/** How a call waits, and how it is made. */
const CALLS: [how: string, (locks: LockService, options?: CommonLockOptions) => Promise<unknown>][] = [
  ['waits for others', (locks, options) => locks.acquire('goods:300', { waitMs: 5_000, ...options })],
  ['does not wait for others', (locks, options) => locks.acquire('goods:300', { waitMs: 0, ...options })],
  ['shares the lock', (locks, options) => locks.acquire('goods:300', { mode: 'shared', ...options })],
  ['has a permit', (locks, options) => locks.acquire('goods:300', { permits: 3, waitMs: 0, ...options })],
  ['wants several locks', (locks, options) => locks.acquire(['goods:1', 'goods:2'], { waitMs: 0, ...options })],
];

describe.each(CALLS)('in an outage, a call that %s', (_how, call) => {
  it('fails after unavailableAfterMs, and says how long Redis was away', async () => {
    const all = startWithout();
    const waiting = outcome(call(all.locks));
    await outage(all, 500);
    expect(waiting).toEqual({});
    await outage(all, 50);
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
    expect((waiting.error as Error).message).toMatch(
      /^goods:\w+ could not be locked: Redis has been unreachable for 500 ms \(connect ECONNREFUSED 127\.0\.0\.1:6379\)\.$/,
    );
  });

  it('fails at once while the outage is known, without a request', async () => {
    const all = start();
    await outage(all, 600);
    const requests = all.store.acquires.length;
    const waiting = outcome(call(all.locks));
    await all.clock.advance(0);
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
    expect(all.store.acquires).toHaveLength(requests);
    expect(keptBy(all.locks)).toBe(0);
  });

  it('is served after an outage that is shorter than unavailableAfterMs', async () => {
    const { locks, store, clock } = start();
    store.lose('acquire', new LockUnavailableError('Connection is closed.'));
    const waiting = outcome(call(locks));
    for (let passedMs = 0; passedMs < 450; passedMs += 50) {
      store.reportUnreachable(cutOff);
      await clock.advance(50);
    }
    expect(waiting).toEqual({});
    store.lose('acquire');
    store.reportReachable();
    await clock.advance(250);
    expect(waiting.value).toBeDefined();
  });

  it('is served if its own lost request has the lock until its release arrives', async () => {
    const { locks, store, clock } = start();
    store.delay('release');
    store.fail('acquire', new LockUnavailableError('Connection is closed.'));
    const waiting = outcome(call(locks));
    await clock.advance(50);
    store.fail('acquire');
    await clock.advance(350);
    expect(waiting.error).toBeUndefined();
    store.arrive('release');
    await clock.advance(100);
    expect(waiting.value).toBeDefined();
  });

  it('is served by the first request after the end', async () => {
    const all = start();
    await outage(all, 2_000);
    end(all);
    const waiting = outcome(call(all.locks));
    await all.clock.advance(0);
    expect(waiting.value).toBeDefined();
  });

  it('waits for as long as before with unavailableAfterMs: Infinity', async () => {
    const all = startWithout({ unavailableAfterMs: Infinity });
    const waiting = outcome(call(all.locks, { waitMs: 5_000 }));
    await outage(all, 4_900);
    expect(waiting).toEqual({});
    await outage(all, 1_500);
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
  });
});

it('a caller that does not wait waits for a lost request of its instance, for the time limit of a request', async () => {
  const { clock, locks, store } = start();
  const lost = new LockUnavailableError('Connection is closed.');
  store.lose('release', lost);
  store.fail('acquire', lost);
  const abort = new AbortController();
  outcome(locks.acquire('goods:300', { waitMs: 60_000, signal: abort.signal }));
  await clock.advance(0);
  abort.abort(new Error('gone home'));
  store.fail('acquire');
  const waiting = outcome(locks.acquire('goods:300', { waitMs: 0 }));
  await clock.advance(999);
  expect(waiting).toEqual({});
  await clock.advance(51);
  const why = 'the release of an earlier request of this instance has not arrived yet';
  expect(waiting.error).toBeInstanceOf(LockUnavailableError);
  expect(waiting.error).toHaveProperty('message', `goods:300 could not be locked: ${why}.`);
});

describe('an outage', () => {
  it('ends the waiting of the callers in the queue, and leaves none of them behind', async () => {
    const all = start();
    await all.stranger.take(KEY);
    const waiting = [1, 2].map(() => outcome(all.locks.acquire('goods:300', { waitMs: Infinity })));
    await all.clock.advance(100);
    await outage(all, 550);
    for (const one of waiting) expect(one.error).toBeInstanceOf(LockUnavailableError);
    end(all);
    await all.clock.advance(100);
    expect((await all.memory.inspect(KEY))?.waiting).toEqual([]);
    expect(keptBy(all.locks)).toBe(0);
  });

  it('ends the waiting behind a holder of the same instance', async () => {
    const all = start();
    const lock = await all.locks.acquire('goods:300');
    const waiting = outcome(all.locks.acquire('goods:300', { waitMs: 60_000 }));
    await outage(all, 550);
    const late = outcome(all.locks.acquire('goods:300', { waitMs: 60_000 }));
    await all.clock.advance(0);
    expect([waiting.error, late.error]).toEqual([expect.any(LockUnavailableError), expect.any(LockUnavailableError)]);
    lock.assertHeld();
    expect(await lock.release()).toBe(true);
  });

  it('leaves nested holds, renewals and releases alone', async () => {
    const all = start({ ttlMs: 3_000 });
    const over = deferred();
    const nested = jest.fn();
    const done = all.locks.using('goods:300', async (lock) => {
      await over.promise;
      await all.locks.using('goods:300', nested);
      return lock.expiresInMs;
    });
    await outage(all, 3_500);
    over.resolve();
    expect(await done).toBeGreaterThan(1_500);
    expect(nested).toHaveBeenCalledTimes(1);
    expect(await all.memory.inspect(KEY)).toBeNull();
  });

  it('of one server leaves the keys of others alone', async () => {
    const serverOf = (key: string): string => (key.includes('goods') ? 'a' : 'b');
    const all = faultyLocks({ unavailableAfterMs: 500 }, undefined, serverOf);
    await outage(all, 600, 'a');
    const waiting = outcome(all.locks.acquire('orders:1', { waitMs: 0 }));
    const failed = outcome(all.locks.acquire('goods:1', { waitMs: 0 }));
    all.store.arrive('acquire');
    await all.clock.advance(0);
    expect(waiting.value).toBeDefined();
    expect(failed.error).toBeInstanceOf(LockUnavailableError);
  });

  it('that nobody has seen for a second is looked for by one request', async () => {
    const all = start();
    await outage(all, 600);
    await all.clock.advance(1_000);
    // The store does not report that it works again.
    all.store.arrive('acquire');
    const first = outcome(all.locks.acquire('goods:1', { waitMs: 0 }));
    const second = outcome(all.locks.acquire('goods:2', { waitMs: 0 }));
    await all.clock.advance(0);
    expect(first.value).toBeDefined();
    expect(second.error).toBeInstanceOf(LockUnavailableError);
    expect((await all.locks.acquire('goods:2', { waitMs: 0 })).resource).toBe('goods:2');
  });

  it('is not one long outage if the server may have worked in between', async () => {
    const all = startWithout();
    all.store.reportUnreachable(cutOff);
    await all.clock.advance(60_000);
    const waiting = outcome(all.locks.acquire('goods:300', { waitMs: 0 }));
    await outage(all, 300);
    expect(waiting).toEqual({});
    end(all);
    await all.clock.advance(0);
    expect(waiting.value).toBeDefined();
  });

  it('in which requests get no reply is known after requestTimeoutMs', async () => {
    const all = start();
    all.store.delay('acquire');
    const first = outcome(all.locks.acquire('goods:1', { waitMs: 0 }));
    await all.clock.advance(600);
    const second = outcome(all.locks.acquire('goods:2'));
    await all.clock.advance(400);
    expect([first.error, second]).toEqual([expect.any(LockUnavailableError), {}]);
    await all.clock.advance(600);
    expect(second.error).toBeInstanceOf(LockUnavailableError);
    const third = outcome(all.locks.acquire('goods:3'));
    await all.clock.advance(0);
    expect(third.error).toBeInstanceOf(LockUnavailableError);
    // The store reads the late replies.
    all.store.arrive('acquire');
    all.store.reportReachable();
    expect((await all.locks.acquire('goods:3', { waitMs: 0 })).resource).toBe('goods:3');
  });

  it('in which the server refuses everything is over with the first grant', async () => {
    const all = start();
    all.store.lose('acquire', readOnly);
    const waiting = outcome(all.locks.acquire('goods:1', { waitMs: 0 }));
    await all.clock.advance(400);
    expect(waiting).toEqual({});
    await all.clock.advance(400);
    expect(waiting.error).toMatchObject({ refusal: 'READONLY' });
    const requests = all.store.acquires.length;
    const next = outcome(all.locks.acquire('goods:2', { waitMs: 5_000 }));
    await all.clock.advance(0);
    expect(next.error).toMatchObject({ refusal: 'READONLY' });
    expect(all.store.acquires).toHaveLength(requests + 1);
    all.store.lose('acquire');
    await all.locks.using('goods:2', () => undefined);
    all.store.lose('acquire', readOnly);
    const patient = outcome(all.locks.acquire('goods:3', { waitMs: 0 }));
    await all.clock.advance(300);
    all.store.lose('acquire');
    await all.clock.advance(300);
    expect(patient.value).toBeDefined();
  });

  it('that is shorter than unavailableAfterMs leaves the time for others as it is', async () => {
    const all = start();
    await all.stranger.take(KEY);
    const waiting = outcome(all.locks.acquire('goods:300', { waitMs: 2_000 }));
    await all.clock.advance(1_000);
    await outage(all, 300);
    end(all);
    await all.clock.advance(650);
    expect(waiting).toEqual({});
    await all.clock.advance(100);
    expect(waiting.error).toBeInstanceOf(LockTimeoutError);
    expect(waiting.error).toMatchObject({ elapsedMs: 2_000 });
  });

  it('is not what too few replicas are, for which a caller waits as for other holders', async () => {
    const { clock, locks, store } = start();
    store.fail('acquire', new LockReplicationError('0 of 1 replicas acknowledged the lock'));
    const waiting = outcome(locks.acquire('goods:300', { waitMs: 5_000 }));
    await clock.advance(4_900);
    expect(waiting).toEqual({});
    await clock.advance(200);
    expect(waiting.error).toBeInstanceOf(LockReplicationError);
  });

  describe.each([{}, { mode: 'shared' as const }, { permits: 3 }])('seen by one key: %j', (mode) => {
    // A further request for the key waits for the reply to the first one.
    it.each([0, 5_000, Infinity])('ends the waiting of a later caller with waitMs: %d', async (waitMs) => {
      const all = start();
      all.store.delay('acquire');
      const first = outcome(all.locks.acquire('goods:300', { ...mode, waitMs: 0 }));
      await all.clock.advance(3_000);
      expect(first.error).toBeInstanceOf(LockUnavailableError);
      const later = outcome(all.locks.acquire('goods:300', { ...mode, waitMs }));
      await all.clock.advance(1_500);
      expect(later.error).toBeInstanceOf(LockUnavailableError);
    });
  });
});

it('if Redis hangs, callers in the queue learn of it within 3 s, also behind eight others', async () => {
  const { clock, neighbour, stranger } = start();
  await stranger.take(KEY);
  const callers = Array.from({ length: 12 }, () => {
    const { store, locks } = neighbour();
    return { store, waiting: outcome(locks.acquire('goods:300', { waitMs: 60_000 })) };
  });
  await clock.advance(5_000);
  for (const { store } of callers)
    for (const verb of ['acquire', 'release', 'extend', 'inspect'] as const) store.hold(verb);
  await clock.advance(2_000);
  for (const { waiting } of callers.slice(0, 8)) expect(waiting.error).toBeInstanceOf(LockUnavailableError);
  await clock.advance(1_000);
  for (const { waiting } of callers) expect(waiting.error).toBeInstanceOf(LockUnavailableError);
});

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

  it('is left after twice the time limit by a caller that does not wait, while replies come late', async () => {
    const { clock, locks, store, server } = busyLocks();
    server.isAlive = true;
    const limitMs = 1_000;
    for (let i = 0; i < 3; i += 1) {
      store.hold('acquire');
      const call = outcome(locks.tryAcquire('goods:300', { ttlMs: 60_000 }));
      await clock.advance(2 * limitMs - 1);
      expect(call).toEqual({});
      await clock.advance(1);
      expect(call.error).toBeInstanceOf(LockUnavailableError);
      expect((call.error as Error).message).toContain('Redis replies slowly');
      // What the late reply brings is released.
      store.deliver('acquire');
      await clock.advance(0);
    }
    expect(locks.engine.servers()[0].isUp).toBe(true);
    await (await locks.acquire('goods:300', { waitMs: 0 })).release();
  });

  it('brings grants too late: the owner asks once again, and then leaves the lock to others', async () => {
    const { clock, locks, store, server } = busyLocks();
    server.isAlive = true;
    store.delay('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 60_000, ttlMs: 600 }));
    for (const requests of [1, 2]) {
      store.delay('acquire');
      await clock.advance(400);
      expect(store.acquires).toHaveLength(requests);
      store.arrive('acquire');
      store.delay('acquire');
      await clock.advance(0);
    }
    store.arrive('acquire');
    const [first, second] = store.acquires.map(({ owner }) => owner);
    expect(second).toBe(first);
    expect(store.releases.map(({ owner }) => owner)).toEqual([first]);
    await clock.advance(200);
    expect(await call.value?.release()).toBe(true);
    expect(store.acquires.at(-1)?.owner).not.toBe(first);
  });

  it('keeps a shutdown waiting for a request that takes long, for one time limit', async () => {
    const { clock, locks, memory, store, server } = busyLocks();
    server.isAlive = true;
    store.hold('acquire');
    const call = outcome(locks.acquire('goods:300', { waitMs: 60_000, ttlMs: 60_000 }));
    await clock.advance(5_000);
    const closed = outcome(locks.engine.close(0).then(() => 'closed'));
    await clock.advance(999);
    expect(call.error).toMatchObject({ code: 'LOCK_CLOSED' });
    expect(store.releases).toEqual([]);
    expect(closed).toEqual({});
    await clock.advance(1);
    expect(closed.value).toBe('closed');
    expect(await memory.inspect(KEY)).toBeNull();
    expect(clock.pending).toBe(0);
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

describe('a request that could not be sent', () => {
  it('leaves its place to others', async () => {
    const { clock, locks, store } = busyLocks();
    const acquire = store.acquire.bind(store);
    store.acquire = () => {
      throw new Error('no such encoding');
    };
    const calls = Array.from({ length: MOST_ON_THEIR_WAY }, (_, id) => outcome(locks.tryAcquire(`broken:${id}`)));
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
    const calls = Array.from({ length: MOST_ON_THEIR_WAY }, (_, id) =>
      outcome(found.locks.acquire(`goods:${id}`, options)),
    );
    await found.clock.advance(0);
    return { ...found, options, calls };
  }

  it('waits in this process in the order of the calls, and renewals and releases do not', async () => {
    const { clock, locks, store, calls, options } = await crowd();
    const late = ['a', 'b', 'c'].map((id) => outcome(locks.acquire(`late:${id}`, options)));
    await clock.advance(0);
    expect(store.acquires).toHaveLength(MOST_ON_THEIR_WAY);
    store.deliverFirst('acquire');
    await clock.advance(0);
    expect(store.acquires).toHaveLength(MOST_ON_THEIR_WAY + 1);
    store.deliver('acquire');
    store.hold('acquire');
    await clock.advance(0);
    expect(store.acquires.slice(MOST_ON_THEIR_WAY).map(({ key }) => key)).toEqual(
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
    await clock.advance(1_999);
    expect(trying).toEqual({});
    await clock.advance(1);
    expect(trying.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', resource: 'late:a' });
    expect((trying.error as Error).message).toContain(
      `${MOST_ON_THEIR_WAY} requests of this process have no reply yet`,
    );
    expect(waiting.error).toBeInstanceOf(LockUnavailableError);
    expect(several.error).toBeInstanceOf(LockUnavailableError);
    expect(locks.engine.servers()[0].isUp).toBe(true);
  });

  it('leaves no caller behind if the keys are on another server meanwhile', async () => {
    const servers = { now: 'a' };
    const { clock, locks, store } = faultyLocks({}, undefined, () => servers.now);
    store.hold('acquire');
    const request = (id: number | string, signal?: AbortSignal) =>
      outcome(locks.using(`goods:${id}`, { waitMs: 600_000, signal }, () => id));
    const first = Array.from({ length: MOST_ON_THEIR_WAY }, (_, id) => request(id));
    const leaving = new AbortController();
    const [leaver, unsent] = [request('leaver', leaving.signal), request('unsent')];
    await clock.advance(0);
    servers.now = 'b';
    leaving.abort(new Error('gone home'));
    const second = Array.from({ length: MOST_ON_THEIR_WAY + 10 }, (_, id) => request(`b${id}`));
    await clock.advance(0);
    store.deliver('acquire');
    for (let turns = 0; turns < 50; turns += 1) await clock.advance(1);
    expect(leaver.error).toEqual(new Error('gone home'));
    for (const { value } of [...first, unsent, ...second]) expect(value).toBeDefined();
    expect(store.acquires.filter(({ key }) => key.includes('leaver'))).toEqual([]);
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
});

describe('callers beyond maxWaiting', () => {
  it('are refused with an error of their own, with the stack of each caller', async () => {
    const { clock, locks } = busyLocks();
    await locks.acquire('goods:300');
    const options = { maxWaiting: 1 };
    outcome(locks.acquire('goods:300', options));
    await clock.advance(0);
    const oneOfMany = async (): Promise<unknown> => await locks.acquire('goods:300', options);
    const refused = [1, 2].map(() => outcome(oneOfMany()));
    await clock.advance(0);
    const [first, second] = refused.map(({ error }) => error as LockTimeoutError);
    expect(first).toBeInstanceOf(LockTimeoutError);
    expect(second).not.toBe(first);
    expect(Object.entries(second)).toEqual(Object.entries(first));
    expect(second.message).toBe(first.message);
    expect(second).toMatchObject({ isQueueFull: true, waitingHere: 1, isOwn: true });
    expect(second.stack).toContain('\n    at oneOfMany ');
  });
});

it('the ping of a store in memory has no server', async () => {
  const up = { isUp: true, handoff: 'subscription', degraded: undefined, servers: [] };
  for (const options of [{}, { lockDelayMs: 1_000 }]) expect(await createTestLocks(options).ping()).toEqual(up);
});

it('the list of a store is refused if the store has none', async () => {
  const message = 'list(): memory() cannot list its locks; use a store that can, such as token().';
  await expect(faultyLocks().locks.list().next()).rejects.toThrow(new LockConfigError(message));
});
