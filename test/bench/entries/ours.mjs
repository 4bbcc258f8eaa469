import { connect, LockRuntime } from '../library.mjs';
import { TTL_MS } from '../settings.mjs';

/** A module instance, as `RedisLockModule.forRoot()` starts it. */
export function startInstance(redis, options = {}) {
  const runtime = LockRuntime.start({ redis, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, ...options });
  runtime.connect();
  return runtime;
}

async function openOurs(url, autoPipelining, options) {
  const client = autoPipelining ? await connect(url, { enableAutoPipelining: true }) : undefined;
  const runtime = startInstance(client ?? url, options);
  return {
    acquire: (resource) => runtime.service.acquire(resource),
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
  waiting: 'queue and hand-off, local passing',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, {}),
};

/** Every grant goes through Redis: strict order between processes. */
export const oursStrict = {
  name: 'nestjs-redis-lock, maxLocalPasses: 0',
  kind: 'ours',
  waiting: 'queue and hand-off',
  open: (url, { autoPipelining = false } = {}) => openOurs(url, autoPipelining, { maxLocalPasses: 0 }),
};

/** Whether this build has local passing to switch off. */
export async function hasLocalPassing() {
  try {
    await LockRuntime.start({ maxLocalPasses: 0 }).close();
    return true;
  } catch {
    return false;
  }
}
