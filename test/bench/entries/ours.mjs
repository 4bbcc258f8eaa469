import { connect, LockRuntime } from '../library.mjs';
import { PERMITS, TTL_MS } from '../settings.mjs';

/** Opens a module instance as `RedisLockModule.forRoot()` does. */
export function startInstance(redis, options = {}) {
  const runtime = LockRuntime.start({ redis, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, ...options });
  runtime.connect();
  return runtime;
}

/** @param {readonly object[]} [ways] the lock options of each way to lock */
async function openOurs(url, autoPipelining, options, ways = [{}]) {
  const client = autoPipelining ? await connect(url, { enableAutoPipelining: true }) : undefined;
  const runtime = startInstance(client ?? url, options);
  return {
    acquire: (resource, way = 0) => runtime.service.acquire(resource, ways[way]),
    release: (lock) => lock.release(),
    tokenOf: (lock) => lock.fencingToken,
    async close() {
      await runtime.close();
      client?.disconnect();
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

/** Whether this build has local handoffs. */
export async function hasLocalPassing() {
  try {
    await LockRuntime.start({ fairness: 'strict' }).close();
    return true;
  } catch {
    return false;
  }
}
