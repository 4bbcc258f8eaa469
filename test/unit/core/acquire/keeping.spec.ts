import { describe, expect, it } from '@jest/globals';
import { type Lock, LockConfigError, type LockOptions, type RedisLockModuleOptions } from 'nestjs-redis-lock';
import { createTestLocks } from 'nestjs-redis-lock/testing';
import { outcome } from '../../../support/async.js';
import { faultyLocks, KEY } from '../../../support/locks.js';

const KEEP_MS = 1_000;
/** The keeping of a lease ends this long before its local deadline. */
const KEPT_MS = KEEP_MS * 0.99 - 2 - 250;

function keepingLocks(options: RedisLockModuleOptions = {}) {
  const all = faultyLocks({ keepMs: KEEP_MS, ...options });
  const { locks, memory, clock } = all;
  const use = (call: LockOptions = {}): Promise<number> => locks.using('goods:300', call, (lock) => lock.fencingToken);
  const held = async (): Promise<boolean> => (await memory.inspect(KEY)) !== null;
  /** Lets another instance request the lock. Its own locks are not kept. */
  const other = (call: LockOptions = {}) => {
    const { locks: others } = all.neighbour({});
    return outcome(others.acquire('goods:300', call));
  };
  const settle = (): Promise<void> => clock.advance(0);
  return { ...all, use, held, other, settle };
}

describe('a lock that is kept', () => {
  it('costs the next callers of the instance no request', async () => {
    const { use, store, held } = keepingLocks();
    const tokens: number[] = [];
    for (let i = 0; i < 100; i++) tokens.push(await use());
    expect(store.acquires).toHaveLength(1);
    expect(store.releases).toHaveLength(0);
    expect(await held()).toBe(true);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  });

  it('is acquired anew when its reserved tokens are used up', async () => {
    const { use, store } = keepingLocks();
    const tokens: number[] = [];
    for (let i = 0; i < 600; i++) tokens.push(await use());
    expect(store.acquires).toHaveLength(3);
    expect(store.releases).toHaveLength(2);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  });

  it('is released when the keeping is over', async () => {
    const { use, clock, store, held } = keepingLocks();
    await use();
    await clock.advance(KEPT_MS - 1);
    expect(await held()).toBe(true);
    await clock.advance(2);
    expect(await held()).toBe(false);
    expect(store.releases).toHaveLength(1);
    expect(store.extendBatches).toHaveLength(0);
  });

  it('has a lease of keepMs, so that a crash costs others no more', async () => {
    const { use, store } = keepingLocks();
    await use();
    expect(store.acquires[0].leaseMs).toBe(KEEP_MS);
    await use({ keepMs: 0 });
    const all = faultyLocks({ keepMs: 5_000, ttlMs: 2_000 });
    await all.locks.using('goods:300', () => undefined);
    expect(all.store.acquires[0].leaseMs).toBe(2_000);
  });

  it('is renewed for the next caller if a third of its lease is over', async () => {
    const { locks, clock, store, use } = keepingLocks();
    await use();
    await clock.advance(KEEP_MS / 2);
    const lock = await locks.acquire('goods:300');
    await clock.advance(0);
    expect(store.acquires).toHaveLength(1);
    expect(store.extendBatches.flat().map(({ leaseMs }) => leaseMs)).toEqual([KEEP_MS]);
    await clock.advance(KEEP_MS * 3);
    expect(lock.held).toBe(true);
  });

  it('goes to another instance that waits for it, at once', async () => {
    const { use, other, settle, store } = keepingLocks();
    const before = await use();
    const waiting = other();
    await settle();
    expect((waiting.value as Lock).fencingToken).toBeGreaterThan(before);
    expect(store.releases).toHaveLength(1);
  });

  it('is released for another instance that does not wait, and is refused', async () => {
    const { use, other, settle, held } = keepingLocks();
    await use();
    const refused = other({ waitMs: 0 });
    await settle();
    expect(refused.error).toBeDefined();
    expect(await held()).toBe(false);
  });

  it('is released for another instance that wants several locks', async () => {
    const { use, neighbour, settle, held } = keepingLocks();
    await use();
    expect(await neighbour({}).locks.tryAcquire(['goods:299', 'goods:300'])).toBeNull();
    await settle();
    expect(await held()).toBe(false);
  });

  it.each([['shared'], [3]])('is released for a reader or a permit of another instance (%s)', async (mode) => {
    const { use, other, settle } = keepingLocks();
    await use();
    const waiting = other(typeof mode === 'number' ? { permits: mode } : { mode: 'shared' });
    await settle();
    expect(waiting.value).toBeDefined();
  });

  it('is released after a second at most if the message is lost', async () => {
    const { use, other, store, clock, settle } = keepingLocks({ keepMs: 8_000 });
    await use();
    store.hold('wanted');
    const waiting = other();
    await settle();
    store.drop('wanted');
    expect(waiting.value).toBeUndefined();
    await clock.advance(1_000);
    expect(waiting.value).toBeDefined();
  });

  it('is not given to a caller after its lease', async () => {
    const { use, clock, store, other, settle } = keepingLocks();
    await use();
    // As a process whose event loop is blocked: no timer has fired.
    clock.jump(KEEP_MS);
    const taken = other();
    await settle();
    expect(taken.value).toBeDefined();
    const next = outcome(use());
    await settle();
    expect(next.value).toBeUndefined();
    expect(store.acquires).toHaveLength(2);
  });

  it('is found by a shared request of the same instance, which does not wait for it', async () => {
    const { use, locks } = keepingLocks();
    await use();
    expect(await locks.tryAcquire('goods:300', { mode: 'shared' })).not.toBeNull();
  });

  it.each([[0], [5_000]])(
    'is found by a request for several locks of the same instance (waitMs %i)',
    async (waitMs) => {
      const { use, locks, store } = keepingLocks();
      await use();
      const all = await locks.acquire(['goods:299', 'goods:300'], { waitMs });
      expect(all.locks).toHaveLength(2);
      expect(store.acquires).toHaveLength(2);
      await all.release();
      expect(store.releases).toHaveLength(3);
    },
  );

  it('is released at the shutdown', async () => {
    const { use, locks, held, settle } = keepingLocks();
    await use();
    const other = await locks.acquire('goods:301');
    const closing = locks.engine.close(5_000);
    expect(await held()).toBe(false);
    await other.release();
    await settle();
    await closing;
  });

  it('is released at the shutdown if its last hold ends during it', async () => {
    const { locks, held, settle } = keepingLocks();
    const [lock, other] = [await locks.acquire('goods:300'), await locks.acquire('goods:301')];
    const closing = locks.engine.close(5_000);
    await lock.release();
    expect(await held()).toBe(false);
    await other.release();
    await settle();
    await closing;
  });

  it.each<[string, (store: ReturnType<typeof keepingLocks>['store']) => void]>([
    ['a connection ends', (store) => store.disconnect()],
    ['a connection is back', (store) => store.reconnect()],
    ['messages may have been missed', (store) => store.reportSubscribed()],
  ])('is released if %s', async (_what, happens) => {
    const { use, store, held, settle } = keepingLocks();
    await use();
    happens(store);
    await settle();
    expect(await held()).toBe(false);
    await use();
    expect(store.acquires).toHaveLength(2);
  });

  it('is released if the reply to its last renewal says that it is lost', async () => {
    const { locks, stranger, store, clock, settle, use } = keepingLocks();
    const lock = await locks.acquire('goods:300');
    await stranger.steal(KEY);
    store.hold('extend');
    await clock.advance(KEEP_MS / 2);
    expect(await lock.release()).toBe(true);
    expect(store.releases).toHaveLength(0);
    store.deliver('extend');
    await settle();
    expect(store.releases).toHaveLength(1);
    expect(await stranger.leave(KEY)).toBe(true);
    await use();
    expect(store.acquires).toHaveLength(2);
  });

  it('is kept with lockDelayMs, too, and released to others at once', async () => {
    const { use, store, other, settle } = keepingLocks({ lockDelayMs: 5_000 });
    await use();
    await use();
    expect(store.acquires.map(({ leaseMs }) => leaseMs)).toEqual([KEEP_MS + 5_000]);
    const waiting = other();
    await settle();
    expect(waiting.value).toBeDefined();
  });

  it('is inspected as held by its instance', async () => {
    const { use, locks } = keepingLocks();
    await use();
    expect((await locks.inspect('goods:300'))?.isOwn).toBe(true);
  });

  it('leaves nothing behind when it is over', async () => {
    const { use, locks, clock } = keepingLocks();
    await use();
    await clock.advance(KEEP_MS);
    expect(locks.engine.localLocks.size).toBe(0);
  });
});

describe('a lock is released and not kept', () => {
  it('if another instance has asked for it while it was held', async () => {
    const { locks, other, settle, store } = keepingLocks();
    const lock = await locks.acquire('goods:300');
    const waiting = other();
    await settle();
    await lock.release();
    await settle();
    expect(waiting.value).toBeDefined();
    expect(store.releases).toHaveLength(1);
  });

  it('if another instance asks before the reply to its own request', async () => {
    const { locks, other, settle, store, held } = keepingLocks();
    store.hold('acquire');
    const own = outcome(locks.acquire('goods:300'));
    await settle();
    const refused = other({ waitMs: 0 });
    await settle();
    expect(refused.error).toBeDefined();
    store.deliver('acquire');
    await settle();
    await (own.value as Lock).release();
    expect(await held()).toBe(false);
  });

  it('if it was granted by a handoff, because others may stand in the queue', async () => {
    const { locks, stranger, settle, held } = keepingLocks({ keepMs: 5_000 });
    await stranger.take(KEY);
    const own = outcome(locks.acquire('goods:300'));
    await settle();
    await stranger.leave(KEY);
    await settle();
    await (own.value as Lock).release();
    expect(await held()).toBe(false);
  });

  it('if it was granted by a handoff that came before the reply', async () => {
    // The lease of a handoff is shorter.
    const { locks, stranger, store, settle, held } = keepingLocks({ keepMs: 5_000 });
    await stranger.take(KEY);
    store.hold('acquire');
    const own = outcome(locks.acquire('goods:300'));
    await settle();
    await stranger.leave(KEY);
    await settle();
    await (own.value as Lock).release();
    expect(await held()).toBe(false);
  });

  it('if it was granted at a repeated request, because others may stand in the queue', async () => {
    const { locks, stranger, clock, held } = keepingLocks({ keepMs: 5_000 });
    await stranger.take(KEY, 500);
    const own = outcome(locks.acquire('goods:300'));
    await clock.advance(2_000);
    await (own.value as Lock).release();
    expect(await held()).toBe(false);
  });

  it('if its work ends before minHoldMs', async () => {
    const { use, clock, held } = keepingLocks();
    await use({ minHoldMs: 100 });
    await clock.advance(100);
    expect(await held()).toBe(false);
  });

  it('if it was extended beyond keepMs', async () => {
    const { locks, held } = keepingLocks();
    const lock = await locks.acquire('goods:300');
    await lock.extend(20_000);
    await lock.release();
    expect(await held()).toBe(false);
  });

  it('if it was lost', async () => {
    const { locks, stranger, clock, store } = keepingLocks();
    const lock = await locks.acquire('goods:300');
    await stranger.steal(KEY);
    await clock.advance(KEEP_MS / 2);
    expect(lock.held).toBe(false);
    expect(store.releases).toHaveLength(1);
    expect(await stranger.leave(KEY)).toBe(true);
  });

  it.each<[string, LockOptions]>([
    ['keepMs: 0', { keepMs: 0 }],
    ['renew: false', { renew: false }],
    ['a shared lock', { mode: 'shared' }],
    ['a permit', { permits: 3 }],
  ])('with %s, which has its full lease', async (_what, call) => {
    const { use, store, held } = keepingLocks();
    await use(call);
    expect(await held()).toBe(false);
    expect(store.acquires[0].leaseMs).toBe(30_000);
  });

  it('if it was acquired together with others', async () => {
    const { locks, store } = keepingLocks();
    await locks.using(['goods:299', 'goods:300'], () => undefined);
    expect(store.acquires[0].leaseMs).toBe(30_000);
    expect(store.releases).toHaveLength(2);
  });

  it('if the store does not report what others want', async () => {
    const { use, store, held } = keepingLocks();
    store.reportsWanted = false;
    await use();
    expect(await held()).toBe(false);
  });

  it('for a second after another instance has wanted it, which may poll', async () => {
    const { use, neighbour, settle, clock, held } = keepingLocks();
    const { locks: poller } = neighbour({});
    await use();
    expect(await poller.tryAcquire('goods:300')).toBeNull();
    await settle();
    await clock.advance(900);
    await use();
    expect(await held()).toBe(false);
    await clock.advance(100);
    await use();
    expect(await held()).toBe(true);
  });

  it('by a caller with another keepMs, if its lease may be longer', async () => {
    const { use, store, held, clock } = keepingLocks();
    await use();
    await clock.advance(KEEP_MS / 2);
    // The watchdog gives it the lease of its caller.
    await use({ keepMs: 0 });
    expect(await held()).toBe(false);
    expect(store.releases).toHaveLength(1);
  });
});

describe('the callers that wait in the instance', () => {
  it('pass the lock on beyond maxLocalPasses while no other instance wants it', async () => {
    const { use, store } = keepingLocks({ fairness: 'strict' });
    await use();
    await Promise.all(Array.from({ length: 100 }, () => use()));
    expect(store.acquires).toHaveLength(1);
  });

  it('give way to another instance that wants it', async () => {
    const { locks, use, other, settle, store } = keepingLocks({ fairness: 'strict' });
    await use();
    const lock = await locks.acquire('goods:300');
    const own = Promise.all(Array.from({ length: 10 }, () => use()));
    const waiting = other({ waitMs: 60_000 });
    await settle();
    await lock.release();
    await settle();
    expect(store.acquires).toHaveLength(2);
    await (waiting.value as Lock).release();
    await settle();
    await own;
  });
});

describe('keepMs', () => {
  it.each([[-1], [1], [49], [10_001], [Infinity], ['1 s']])('is refused if it is %s', (keepMs) => {
    expect(() => faultyLocks({ keepMs: keepMs as number })).toThrow(
      'keepMs is ' + (typeof keepMs === 'string' ? '"1 s"' : String(keepMs)) + '; allowed is 0',
    );
  });

  it('is refused by a store that cannot keep locks, at the start and at the call', async () => {
    const { store, clock } = faultyLocks();
    const unable = { ...methodsOf(store), canKeep: undefined };
    expect(() => createTestLocks({ clock, store: unable, keepMs: KEEP_MS })).toThrow(LockConfigError);
    const locks = createTestLocks({ clock, store: unable });
    const refused = outcome(locks.acquire('goods:300', { keepMs: KEEP_MS }));
    await clock.advance(0);
    expect(String(refused.error)).toContain('keepMs: memory() does not keep locks; allowed is 0');
  });
});

/** Returns a copy of a store, without what it does not need. */
function methodsOf(store: ReturnType<typeof faultyLocks>['store']) {
  return {
    capabilities: store.capabilities,
    acquire: store.acquire.bind(store),
    release: store.release.bind(store),
    extend: store.extend.bind(store),
    inspect: store.inspect.bind(store),
    listen: store.listen.bind(store),
    close: store.close.bind(store),
  };
}
