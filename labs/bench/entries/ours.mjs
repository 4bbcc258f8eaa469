import { connect, LockRuntime, logger } from '../library.mjs';
import { TTL_MS } from '../settings.mjs';

/** Opens a module instance as `RedisLockModule.forRoot()` does. */
export function startInstance(redis, options = {}) {
  const runtime = LockRuntime.start(
    { redis, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, ...options },
    undefined,
    { logger },
  );
  runtime.connect();
  return runtime;
}

async function openOurs(url, autoPipelining, options) {
  const client = autoPipelining ? await connect(url, { enableAutoPipelining: true }) : undefined;
  return openRuntime(client ?? url, () => client?.disconnect(), options);
}

/**
 * @param redis the module's option
 * @param {() => void} disconnect closes what the module does not
 * @param {object} [options] other options of the module
 */
export function openRuntime(redis, disconnect, options = {}) {
  const runtime = startInstance(redis, options);
  return {
    runtime,
    acquire: (resource) => runtime.service.acquire(resource),
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

/** The cycle is one call of `using`, as by a `@Locked` method. */
const usingOf = (name, options) => ({
  ...ours,
  name,
  async open(url, { autoPipelining = false } = {}) {
    const opened = await openOurs(url, autoPipelining, options);
    const { service } = opened.runtime;
    return { ...opened, cycle: (resource) => service.using(resource, () => undefined) };
  },
});

export const oursUsing = usingOf('nestjs-redis-lock, `using`', {});

/** The result is passed on as soon as the release is sent. */
export const oursUnawaited = usingOf('nestjs-redis-lock, `using`, `awaitRelease: false`', { awaitRelease: false });
