import { type LockLogger, LockRuntime } from '../lock-runtime.js';
import type { LockService } from '../lock.service.js';
import { checkAt } from '../options/option-table.js';
import type { RedisLockModuleOptions } from '../options/redis-lock.options.js';
import { checkHoldTimes } from '../options/resolve-options.js';

/**
 * The options of {@link createLocks}: those of `RedisLockModule.forRoot()` that do not concern Nest, and `logger`.
 *
 * @publicApi
 */
export interface CreateLocksOptions extends Omit<RedisLockModuleOptions, 'http' | 'checks' | 'shutdownGraceMs'> {
  /**
   * What gets the log lines: where the locks are, findings of `checks`, outages of Redis, locks that were lost or are
   * held for long. `console`, Nest's `Logger`, or another object with the methods `log`, `warn` and `error`.
   *
   * @default console
   */
  readonly logger?: LockLogger | undefined;

  /**
   * Where findings about the servers go. `warn`: to `logger.warn`. `error`: to `logger.error`, and so does a Redis that
   * cannot be reached at the start. `off`: the servers are not checked. Findings are about a server that may evict keys
   * that have a TTL, is a replica, is older than Redis 6.2, or is a cluster node while the client expects a single
   * server. The locks work in spite of a finding. To end a script whose Redis is down, call `ping()`.
   *
   * @default 'warn'
   */
  readonly checks?: 'warn' | 'error' | 'off' | undefined;

  /**
   * How long calls and holds may continue after `close()`, in milliseconds. After that, the signals of the holds that
   * are left abort, and their locks are released.
   *
   * @default 5000
   */
  readonly shutdownGraceMs?: number | undefined;
}

/**
 * A lock service without Nest, from {@link createLocks}.
 *
 * @publicApi
 */
export interface Locks extends LockService {
  /**
   * Ends all leaderships, waits for the current calls and holds for at most `shutdownGraceMs`, and then closes the
   * connections that it opened. Calls that come meanwhile are served until nobody holds or waits. Later calls are
   * rejected with `LockClosedError`. A second call returns the same promise.
   */
  close(): Promise<void>;
  /** Does what {@link close} does, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void>;
}

const PLACE = 'createLocks()';

/**
 * Returns a lock service for scripts, workers and services without Nest. It contends with every application that uses
 * the same Redis, `prefix` and key options, with Nest or without.
 *
 * Connects at once and does not wait, so a process starts without Redis. The connection keeps the process alive until
 * {@link Locks.close}.
 *
 * ```ts
 * await using locks = createLocks({ redis: 'redis://127.0.0.1:6379' });
 * await locks.using('goods:300', async (lock) => console.log(lock.fencingToken));
 * ```
 *
 * @throws {LockConfigError} if an option is not allowed or the store does not support it, or if ioredis is not
 * installed and `redis` is neither a client nor what `fromNodeRedis()` returned.
 *
 * @publicApi
 */
export function createLocks(given: CreateLocksOptions = {}): Locks {
  const { logger, ...options } = checkAt(PLACE, given);
  checkHoldTimes(options, PLACE);
  const runtime = LockRuntime.start(options, undefined, { logger });
  runtime.connect();
  runtime.reportChecks();
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= runtime.end());
  return Object.assign(runtime.service, { close, [Symbol.asyncDispose]: close });
}
