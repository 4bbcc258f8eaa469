import type { RedisOptions } from 'ioredis';
import type { OptionRule } from '../common/check-options.js';
import type { LockErrorCode } from '../common/errors.js';
import type { RedisClient, RedisClusterOptions } from '../redis/redis-client.js';
import type { ReplicaOptions, StoreFactory } from '../stores/store-context.js';
import type { CommonLockOptions } from './lock.options.js';

/**
 * The option `http`: what callers of the application get for lock errors. All module instances of an application share
 * it. If two have different ones, they throw `LockConfigError` at startup.
 *
 * @publicApi
 */
export interface HttpOptions {
  /**
   * The HTTP status for a code: `{ LOCK_TIMEOUT: 409 }`. Codes that are left out keep their defaults. From 400 to 599.
   *
   * @default {}
   */
  readonly status?: Readonly<Partial<Record<LockErrorCode, number | undefined>>> | undefined;

  /**
   * When a caller may try again, in milliseconds. HTTP clients get it as the header `Retry-After` in whole seconds, RPC
   * and WebSocket callers as `retryAfterMs`. The module does not know when the holder will end its work. A good value
   * is the usual duration of the work under the lock.
   *
   * @default 1000
   */
  readonly retryAfterMs?: number | undefined;
}

/**
 * The options of `RedisLockModule.forRoot()`. Those of {@link CommonLockOptions} are the defaults of every lock of the
 * module.
 *
 * @publicApi
 */
export interface RedisLockModuleOptions extends Omit<CommonLockOptions, 'signal' | 'label'> {
  /**
   * The name of this process in Redis, which errors and `inspect` of other processes show: "held by api-7f9c-31 for 4.2
   * s". It is part of the locks' values and of the channels. Clients with access to Redis can read it. Up to 80
   * letters, digits and `. _ : @ / -`. It need not be unique. `''`: no name.
   *
   * @default the host name and the process id, such as `api-7f9c-31`
   */
  readonly identity?: string | undefined;

  /**
   * Where Redis is: a URL, the path of a socket, ioredis options, or an ioredis client. For a cluster:
   * `{ nodes: [...] }` with options of ioredis' `Cluster`, or a `Cluster`. With a URL or options, the module opens one
   * connection (to each node) and closes it at shutdown. It never closes or changes a client that it was given. Sharing
   * a client saves a connection. The locks then share the client's command queue and settings. For node-redis: what
   * `fromNodeRedis` of `nestjs-redis-lock/node-redis` returns.
   *
   * @default 'redis://127.0.0.1:6379'
   */
  readonly redis?: string | RedisOptions | RedisClusterOptions | RedisClient | undefined;

  /**
   * The start of every key, helper key and channel, to keep locks apart from other data and other applications:
   * `shop:lock_` makes `{shop:lock_goods}:300`. Applications exclude each other only if their prefixes are equal. May
   * be empty. Braces, `|`, white space and control characters are not allowed. Not used with `key`.
   *
   * @default 'lock_'
   */
  readonly prefix?: string | undefined;

  /**
   * Which part of a key is its hash tag, which decides the slot in a cluster. `family`: the first segment,
   * `{lock_goods}:300`. A family shares a slot, so several of its locks are acquired in one step. `resource`: the whole
   * resource, `{lock_goods:300}`. A busy family is spread over all nodes. A resource with braces of its own,
   * `goods:{300}`, keeps them.
   *
   * @default 'family'
   */
  readonly hashTag?: 'family' | 'resource' | undefined;

  /**
   * Returns the exact key of a resource, in place of `prefix` and `hashTag`, for keys that another system chose.
   * Resources with the same key exclude each other.
   */
  readonly key?: ((resource: string) => string) | undefined;

  /**
   * Whether waiting callers of this instance may overtake those of other instances.
   *
   * `throughput`: a released lock is passed on to the next caller of the same instance, at most 16 times and for at
   * most 50 ms. Passing on takes microseconds and no request to Redis. Callers of other instances can be overtaken up
   * to 16 times for each grant. `strict`: every grant comes from Redis, in arrival order of the instances, and costs
   * two or three requests. Readers of an instance that wait together get the lock together.
   *
   * @default 'throughput'
   */
  readonly fairness?: 'throughput' | 'strict' | undefined;

  /**
   * Blocks new holders for this long after a lease expires without a release, in milliseconds. For resources that
   * cannot check fencing tokens, because delayed writes of a paused holder can still arrive in this time. A release
   * frees the lock immediately. Must be equal in all instances.
   *
   * @default 0
   */
  readonly lockDelayMs?: number | undefined;

  /**
   * How long to wait, in milliseconds, while Redis cannot be reached or refuses every request. `waitMs` limits only the
   * wait for other holders. Once an outage has lasted this long, all callers, including those in the queue, get
   * `LockUnavailableError` immediately until Redis replies again. No caller fails because of a shorter outage.
   *
   * `0` does not wait. `Infinity` waits for Redis until `waitMs` has elapsed. A request without a reply for one second
   * counts as an outage of that length.
   *
   * @default 500
   */
  readonly unavailableAfterMs?: number | undefined;

  /**
   * What the module does when it finds a mistake. `warn`: logs one line that says how to fix it. `error`: the
   * application does not start, and throws `LockConfigError` with these lines. `off`: reports none of these. An
   * application with a `@Locked` method that cannot work does not start at any level.
   *
   * - **Servers:** one that may evict keys that have a TTL, is a replica, is older than Redis 6.2, or is a cluster node
   *   while the client expects a single server. The module sends `INFO` at startup and after each reconnect. A server
   *   that refuses `INFO` is not reported. With `warn`, startup does not wait for the reply. With `error`, it waits for
   *   at most one second, and later findings are logged as errors.
   * - **Reachability:** with `error`, the application does not start if Redis cannot be reached or refuses the
   *   password. It throws `LockUnavailableError` with the address and the reason. Startup then takes at most two
   *   seconds longer.
   * - **Decorators:** one that is above `@Locked` and replaces the method, such as one for transactions. The lock is
   *   released before that decorator ends, for example before the commit. Methods with `@LockScope()` on top are not
   *   reported. Neither is any method if transactions are lock scopes (`withLockScope`). Above a handler, only a
   *   decorator that drops the method's metadata is reported.
   *
   * @default 'warn'
   */
  readonly checks?: 'warn' | 'error' | 'off' | undefined;

  /** What callers of the application get for lock errors: the HTTP status and `Retry-After`. */
  readonly http?: HttpOptions | undefined;

  /**
   * How many replicas must confirm a grant before the caller gets it, so that a failover does not lose the lock:
   * `{ min: 1, timeoutMs: 50 }`. If fewer confirm it in time, the request is repeated. When `waitMs` has elapsed, the
   * lock is released, and the caller gets `LockReplicationError`. Costs a second connection, and a round trip to the
   * replicas for every grant and renewal. For the store `token()` only.
   */
  readonly replicas?: ReplicaOptions | undefined;

  /**
   * How long calls and holds may continue when the application shuts down, in milliseconds. It counts from the module's
   * `beforeApplicationShutdown` hook. After that, the signals of the holds that are left abort, and their locks are
   * released. Other calls are served until nobody has used the module for a second.
   *
   * @default 5000
   */
  readonly shutdownGraceMs?: number | undefined;

  /**
   * The algorithm: the result of `token()`, `timestamp()`, `redisson()`, `quorum()` or `memory()`.
   *
   * @default token()
   */
  readonly store?: StoreFactory | undefined;
}

/** The name of a module instance without a name. */
export const DEFAULT_INSTANCE = 'default';

/** Allows the name of a module instance. */
export const instanceName: OptionRule = {
  allowed: 'the name of a module instance, a string that is not empty',
  fits: (value) => typeof value === 'string' && value !== '',
};
