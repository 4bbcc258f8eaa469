import { connect, LockRuntime, logger } from '../library.mjs';
import { TTL_MS } from '../settings.mjs';

/** Returns an entry that opens a module instance as `RedisLockModule.forRoot()` does. */
const entryOf = (name, waiting, options = {}, cycleOf = () => ({})) => ({
  name,
  kind: 'ours',
  waiting,
  async open(url, { autoPipelining = false } = {}) {
    const client = autoPipelining ? await connect(url, { enableAutoPipelining: true }) : undefined;
    const given = { redis: client ?? url, ttlMs: TTL_MS, waitMs: Infinity, shutdownGraceMs: 0, ...options };
    const runtime = LockRuntime.start(given, undefined, { logger });
    runtime.connect();
    const { service } = runtime;
    return {
      acquire: (resource) => service.acquire(resource),
      release: (lock) => lock.release(),
      ...cycleOf(service),
      tokenOf: (lock) => lock.fencingToken,
      async close() {
        await runtime.close();
        client?.disconnect();
      },
    };
  },
});

const LOCAL = 'queue and handoff, local handoff';
export const ours = entryOf('nestjs-redis-lock', LOCAL);

/** Every grant goes through Redis: strict order between processes. */
export const oursStrict = entryOf('nestjs-redis-lock, fairness: strict', 'queue and handoff', { fairness: 'strict' });

/** The cycle is one call of `using`, as by a `@Locked` method. */
const using = (service) => ({ cycle: (resource) => service.using(resource, () => undefined) });
export const oursUsing = entryOf('nestjs-redis-lock, `using`', LOCAL, {}, using);

/** The result is passed on as soon as the release is sent. */
export const oursUnawaited = entryOf(
  'nestjs-redis-lock, `using`, `awaitRelease: false`',
  LOCAL,
  { awaitRelease: false },
  using,
);
