import { BEFORE_COMMIT } from '../before.mjs';
import { connect, LockRuntime, LockRuntimeBefore } from '../library.mjs';
import { PERMITS, TTL_MS } from '../settings.mjs';

/** Opens a module instance as `RedisLockModule.forRoot()` does. */
export function startInstance(redis, options = {}, Runtime = LockRuntime) {
  const runtime = Runtime.start({ redis, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, ...options });
  runtime.connect();
  return runtime;
}

async function openOurs(url, autoPipelining, options, ways, Runtime) {
  const client = autoPipelining ? await connect(url, { enableAutoPipelining: true }) : undefined;
  return openRuntime(client ?? url, () => client?.disconnect(), options, ways, Runtime);
}

/**
 * @param redis the module's option
 * @param {() => void} disconnect closes what the module does not
 * @param {object} [options] other options of the module
 * @param {readonly object[]} [ways] the lock options of each way to lock
 */
export function openRuntime(redis, disconnect, options = {}, ways = [{}], Runtime = LockRuntime) {
  const runtime = startInstance(redis, options, Runtime);
  return {
    runtime,
    acquire: (resource, way = 0) => runtime.service.acquire(resource, ways[way]),
    release: (lock) => lock.release(),
    tokenOf: (lock) => lock.fencingToken,
    async close() {
      await runtime.close();
      disconnect();
    },
  };
}

export const ours = {
  name: 'nestjs-redis-lock',
  kind: 'ours',
  waiting: 'queue and handoff, local handoff',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, {}),
};

/** Every grant goes through Redis: strict order between processes. */
export const oursStrict = {
  name: 'nestjs-redis-lock, fairness: strict',
  kind: 'ours',
  waiting: 'queue and handoff',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, { fairness: 'strict' }),
};

/** Readers share the lock, writers do not. */
export const oursShared = {
  name: 'nestjs-redis-lock, shared',
  kind: 'ours',
  waiting: 'queue and handoff',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, {}, [{ mode: 'shared' }, {}]),
};

export const oursPermits = {
  name: 'nestjs-redis-lock, permits',
  kind: 'ours',
  waiting: 'queue and handoff',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, {}, [{ permits: PERMITS }]),
};

/** The cycle is one call of `using`, as by a `@Locked` method. */
const usingOf = (name, options, keyOf = (resource) => resource) => ({
  ...ours,
  name,
  async open(url, { autoPipelining = false } = {}) {
    const opened = await openOurs(url, autoPipelining, options);
    const { service } = opened.runtime;
    return { ...opened, cycle: (resource) => service.using(keyOf(resource), () => undefined) };
  },
});

export const oursUsing = usingOf('nestjs-redis-lock, `using`', {});

/** The result is passed on as soon as the release is sent. */
export const oursUnawaited = usingOf('nestjs-redis-lock, `using`, `awaitRelease: false`', { awaitRelease: false });

/** The next caller wants another key, so that it does not have to come after the release of the last one. */
export const oursUnawaitedOther = usingOf(
  `${oursUnawaited.name}, another key each time`,
  { awaitRelease: false },
  (() => {
    let n = 0;
    return (resource) => `${resource}:${++n % 1_000}`;
  })(),
);

/** The names of the library before. It is there if its commit could be built. */
export const BEFORE = `nestjs-redis-lock before (${BEFORE_COMMIT})`;
export const BEFORE_SHARED = `${BEFORE}, shared`;
export const BEFORE_PERMITS = `${BEFORE}, permits`;

const beforeOf = (name, entry, ways) => ({
  ...entry,
  name,
  kind: 'before',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, {}, ways, LockRuntimeBefore),
});

const orNone = (entry) => (LockRuntimeBefore === undefined ? [] : [entry]);
export const before = orNone(beforeOf(BEFORE, ours, [{}]));
export const beforeShared = orNone(beforeOf(BEFORE_SHARED, oursShared, [{ mode: 'shared' }, {}]));
export const beforePermits = orNone(beforeOf(BEFORE_PERMITS, oursPermits, [{ permits: PERMITS }]));
