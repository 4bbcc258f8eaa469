import type { RedisOptions } from 'ioredis';
import type { LockErrorCode } from '../core/errors.js';
import type { LockStore } from '../core/store/lock-store.js';
import type { RedisClient, RedisClusterOptions } from '../redis/redis-client.js';
import type { ReplicaOptions } from '../stores/store-context.js';
import type { StoreFactory } from '../stores/store-context.js';

export type { RedisClusterOptions };

/**
 * The options of one lock. The module's options are the defaults.
 *
 * @publicApi
 */
export interface LockOptions {
  /**
   * The lease in milliseconds: Redis deletes the lock after this time if the holder does not renew it. A long lease
   * blocks others for longer after a crash. A short lease is lost sooner if the process or Redis pauses, and is renewed
   * more often: every third of it. Work that blocks the event loop for less than two thirds of it keeps its lock. A
   * lock received by handoff starts with at most 3000 ms. The request that extends it to `ttlMs` leaves before the
   * work.
   *
   * @default 30000
   * @minimum 50
   */
  readonly ttlMs?: number | undefined;

  /**
   * How long to wait for a lock that others hold, in milliseconds. After that, the request is rejected with
   * `LockTimeoutError`. `0` does not wait. `Infinity` waits without a limit.
   *
   * @default 5000
   */
  readonly waitMs?: number | undefined;

  /**
   * How long to wait for a Redis that cannot be reached or refuses every request, in milliseconds. `waitMs` limits only
   * the wait for other holders. Once an outage has lasted this long, all callers get `LockUnavailableError` at once,
   * also those in the queue, until Redis replies again. An outage that is shorter costs no caller an error.
   *
   * `0` does not wait. `Infinity` waits for Redis until `waitMs` is over. A request without a reply within
   * `requestTimeoutMs` counts as an outage of that length.
   *
   * @default 500, or `requestTimeoutMs` if that is less
   */
  readonly unavailableAfterMs?: number | undefined;

  /**
   * How many callers of this instance may wait for one lock. One more is refused at once with a `LockTimeoutError`
   * whose `isQueueFull` is true. Callers whose request has no reply yet wait, too. `Infinity`: no limit.
   *
   * Readers (`mode: 'shared'`) are served together, so 50 of them count as one. With `fairness: 'strict'` each of them
   * counts.
   *
   * @default 1000
   * @minimum 1
   */
  readonly maxWaiting?: number | undefined;

  /**
   * Renews the lease until the lock is released. `false`: the lock expires after `ttlMs`. A shorter lease received by
   * handoff is still extended to `ttlMs` once.
   *
   * @default true
   */
  readonly renew?: boolean | undefined;

  /**
   * Stops the renewal this long after the grant, in milliseconds, so that work that hangs cannot keep the lock. The
   * lock is lost then.
   *
   * @default Infinity
   * @minimum 1
   */
  readonly maxHoldMs?: number | undefined;

  /**
   * Keeps the lock held in Redis until this long after the grant, in milliseconds, even if it is released sooner. The
   * release does not wait for it. A cron job that takes 1 ms runs once if the machines' clocks differ by less than
   * this. At most `maxHoldMs`.
   *
   * @default 0
   */
  readonly minHoldMs?: number | undefined;

  /**
   * Warns of a lock that is renewed for longer than this after the grant, in milliseconds, because its work may hang.
   * One line is logged for it, and one when it is released. `false` or `Infinity`: never. Not for leaders, nor for
   * `@Locked` methods that return an Observable, unless the method sets it.
   *
   * @default 30000
   * @minimum 1
   */
  readonly warnHeldMs?: number | false | undefined;

  /**
   * Lets work that holds the lock acquire it again, as a nested hold of the same grant. `false`: acquiring it again
   * throws `LockReentryError`.
   *
   * @default true
   */
  readonly reentrant?: boolean | undefined;

  /**
   * What the caller of `using` or of a `@Locked` method gets if the lock was lost while the work ran. `throw`: a
   * `LockLostError` whose `cause` is the work's own error. `ignore`: the work's own result or error. Another holder may
   * have worked at the same time.
   *
   * @default 'throw'
   */
  readonly onLost?: 'throw' | 'ignore' | undefined;

  /**
   * Whether `using`, a `@Locked` method and an `await using` block wait for the reply to the release. `false`: the
   * result is passed on as soon as the release is requested, which saves a round trip to Redis. It is sent by the end
   * of the event loop's tick. The lock may still be held then, for as long as the release takes. A failed release is
   * repeated as ever, and the shutdown waits for it.
   *
   * A lock scope waits for its releases in any case. So does a caller that awaits `lock.release()`.
   *
   * @default true
   */
  readonly awaitRelease?: boolean | undefined;

  /**
   * How long this instance keeps an exclusive lock after its release, in milliseconds, while nobody else wants it. The
   * next caller of the instance then gets it without a request to Redis. Any request of another instance ends the
   * keeping by a message. 0: never.
   *
   * The lease is `keepMs` at most, also while the lock is held. So a crash costs others no more than `keepMs`. Work
   * that blocks the event loop for two thirds of `keepMs` can lose its lock.
   *
   * It has no effect on shared locks, permits, several locks at once, and with `renew: false`. A store that cannot keep
   * locks refuses it with `LockConfigError`.
   *
   * @default 0
   * @minimum 50, or 0
   * @maximum 10000
   */
  readonly keepMs?: number | undefined;

  /**
   * What to do if this lock is requested inside another one, and the program has taken them in the other order before.
   * Calls that meet would wait for each other until `waitMs` is over. Both places are known as soon as the second one
   * has run once, without a deadlock. It compares families (`goods` of `goods:300`), and for two locks of one family
   * their ids. A request with `waitMs: 0` cannot wait, and is no finding.
   *
   * `warn`: logs one line for each circle of locks. `error`: throws `LockOrderError`, each time. `ignore`: does not
   * look at this request. Use it for locks that are always taken along a tree, from parent to child. The modules of
   * `nestjs-redis-lock/testing` have `error` by default.
   *
   * @default 'warn'
   */
  readonly lockOrder?: 'warn' | 'error' | 'ignore' | undefined;

  /** Stops the wait: the request is rejected with the signal's reason. It has no effect after the grant. */
  readonly signal?: AbortSignal | undefined;

  /**
   * `exclusive`: one holder at a time, for writers. `shared`: any number of holders, for readers, and no exclusive one.
   *
   * Requests are served in arrival order. A reader that arrives after a waiting writer is served after that writer, so
   * neither can starve. Without a queue in Redis, readers can starve a writer: with `quorum()`, or if pub/sub is
   * refused.
   *
   * A holder of the exclusive lock may acquire it shared inside. A shared lock cannot be upgraded. Two readers
   * upgrading at once would deadlock, so the attempt throws `LockReentryError`.
   *
   * A mode that the store does not have is refused with `LockConfigError`: `@Locked` when the application starts, a
   * `LockService` at the call.
   *
   * @default 'exclusive'
   */
  readonly mode?: 'exclusive' | 'shared' | undefined;

  /**
   * Makes the lock a semaphore: this many holders at a time, each with its own lease. Cannot be combined with `mode`. A
   * request with neither waits until there is no holder, and then has the lock alone.
   *
   * All callers must pass the same `permits` for a resource. A different value throws `LockConfigError` while the
   * resource is held. So does a store without permits, as described for `mode`.
   *
   * Tokens of concurrent holders are not ordered, and may be the same in one module instance. Use a fence with
   * exclusive locks only.
   *
   * @minimum 1
   * @maximum 1000000
   */
  readonly permits?: number | undefined;

  /**
   * Names the call in events, traces and `local()`, such as the id of a request. Shown up to 128 characters, with `?`
   * for unprintable ones, so it may be a header that a client has sent. Never sent to Redis.
   */
  readonly label?: string | undefined;

  /**
   * Marks work under the lock that nobody waits for and that can run at another time, like a scheduled job. It is
   * refused with `LockClosedError` as soon as the application begins to shut down, also if it waits for the lock
   * already. Other calls are served until Nest has closed its servers. Inside a hold, background work is served, too.
   *
   * A `@Locked` method that is no handler is then not called, returns `undefined`, and one line is logged for it. It is
   * background work by default if it has `@Cron`, `@Interval`, `@Timeout` or `@OnEvent`.
   *
   * @default false
   */
  readonly background?: boolean | undefined;
}

/**
 * How far one module instance may pass a lock on among its own callers. See `fairness`.
 *
 * @publicApi
 */
export interface FairnessOptions {
  /**
   * How many times in a row the lock may be passed on after a grant by Redis. `0`: never.
   *
   * @default 16
   * @maximum 256
   */
  readonly maxLocalPasses?: number | undefined;

  /**
   * How long after a grant by Redis the lock may be passed on, in milliseconds. A lock held for longer goes back to
   * Redis.
   *
   * @default 50
   */
  readonly maxLocalHoldMs?: number | undefined;
}

/**
 * What callers of the application get for lock errors. Several module instances of an application share these options:
 * two different values throw `LockConfigError` at start.
 *
 * @publicApi
 */
export interface ErrorResponseOptions {
  /**
   * Registers `LockExceptionFilter` as the last filter of the application: all filters of the application come before
   * it. `false`: lock errors go to the application's own filters only, and to Nest's default responses without one.
   *
   * @default true
   */
  readonly filter?: boolean | undefined;

  /**
   * The HTTP status for a code: `{ LOCK_TIMEOUT: 409 }`. Codes that are left out keep theirs. From 400 to 599.
   *
   * @default {}
   */
  readonly httpStatus?: Readonly<Partial<Record<LockErrorCode, number | undefined>>> | undefined;

  /**
   * When a caller may try again, in milliseconds. HTTP clients get it as the header `Retry-After` in whole seconds,
   * other callers as `retryAfterMs`. Nobody knows when the holder ends its work. A good value is the usual time of the
   * work under the lock.
   *
   * @default 1000
   */
  readonly retryAfterMs?: number | undefined;
}

/**
 * The options of `RedisLockModule.forRoot()`. Those of {@link LockOptions} are the defaults of every lock of the
 * module.
 *
 * @publicApi
 */
export interface RedisLockModuleOptions
  extends Omit<LockOptions, 'signal' | 'mode' | 'permits' | 'label' | 'background'>, ErrorResponseOptions {
  /**
   * The name of this process in Redis, which errors and `inspect` of other processes show: "held by api-7f9c-31 for 4.2
   * s". It is a part of the locks' values and of the channels. Clients with access to Redis can read it. Up to 80
   * letters, digits and `. _ : @ / -`. Need not be unique. `''`: none.
   *
   * @default the host name and the process id, as `api-7f9c-31`
   */
  readonly identity?: string | undefined;

  /**
   * Where Redis is: a URL, options of ioredis, or a client of ioredis. For a cluster: `{ nodes: [...] }` with options
   * of ioredis' `Cluster`, or a `Cluster`. With a URL or options, the module opens one connection (to each node) and
   * closes it at shutdown. It never closes or changes a client that it was given. Sharing a client saves a connection.
   * The locks then share its command queue and settings.
   *
   * @default 'redis://127.0.0.1:6379'
   */
  readonly redis?: string | RedisOptions | RedisClusterOptions | RedisClient | undefined;

  /**
   * The name of the application, or of several that share their locks. It stands before `prefix` in every key, helper
   * key and channel: `shop` makes `{shop:lock_goods}:300`. Applications with different namespaces, or one without,
   * never exclude each other. 1 to 64 letters, digits and the characters `. _ -`. Not allowed beside `key`.
   *
   * Default: none, which is `{lock_goods}:300`. The module warns once if another application uses the same Redis with
   * neither `namespace` nor `prefix`.
   */
  readonly namespace?: string | undefined;

  /**
   * The start of every key, to keep locks apart from other data and other applications. May be empty. Two applications
   * lock each other out only if their prefixes are equal, and their namespaces.
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
   * Returns the exact key of a resource, instead of `prefix` and `hashTag`, for keys that another system has chosen.
   * Resources with the same key exclude each other.
   */
  readonly key?: ((resource: string) => string) | undefined;

  /**
   * Whether waiting callers of this instance may overtake those of other instances.
   *
   * `throughput`: a released lock is passed on to the next caller of the same instance, at most 16 times and for at
   * most 50 ms. Passing on takes microseconds and no request to Redis. Callers of other instances can be overtaken up
   * to 16 times for each grant. `strict`: every grant goes through the queue in Redis, in arrival order of the
   * instances. Each costs a round trip and a message. {@link FairnessOptions} sets the two limits. A missing one has
   * the value of `throughput`.
   *
   * @default 'throughput'
   */
  readonly fairness?: 'throughput' | 'strict' | FairnessOptions | undefined;

  /**
   * Blocks new holders for this long after a lease expires without a release, in milliseconds. For resources that
   * cannot check fencing tokens: delayed writes of a paused holder can still arrive in this time. A release frees the
   * lock at once. Must be equal in all instances.
   *
   * @default 0
   */
  readonly lockDelayMs?: number | undefined;

  /**
   * How long to wait for the reply to one request, in milliseconds. After that, the caller gets `LockUnavailableError`.
   * A long timeout reports an outage late. A short one reports a slow Redis as unavailable.
   *
   * @default 1000
   * @minimum 10
   */
  readonly requestTimeoutMs?: number | undefined;

  /**
   * What to do if a server is unfit for locks. It evicts keys that have a TTL, is a replica, is older than Redis 6.2,
   * or is a node of a cluster and the client is not. The module looks at the reply to `INFO` at start and after each
   * reconnect. A server that refuses `INFO` has no finding.
   *
   * `warn`: logs one line for each finding. The start does not wait for it. `fail`: the application does not start, and
   * throws `LockConfigError` with that line. It waits for the reply, at most `requestTimeoutMs`, and starts without it.
   * Later findings are logged as errors. `off`: does not look.
   *
   * @default 'warn'
   */
  readonly preflight?: 'warn' | 'fail' | 'off' | undefined;

  /**
   * How many replicas must confirm a grant before the caller gets it, so that a failover does not lose the lock: `{
   * min: 1, timeoutMs: 50 }`. If fewer confirm in time, the lock is released and the caller gets
   * `LockReplicationError`. Costs a second connection, and a round trip to the replicas for every grant and renewal.
   * For the store `token()` only.
   */
  readonly replicas?: ReplicaOptions | undefined;

  /**
   * What to do at start if another decorator stands above `@Locked` and replaces the method, such as a decorator for
   * transactions. The lock is released before that decorator ends, for example before the commit. Handlers are no
   * finding: their lock is held until the response is complete. Neither is a method with `@LockScope()` on top.
   *
   * `warn`: logs one line for each method, which says how to mend it. Logs nothing if transactions are lock scopes.
   * `error`: the application does not start, and throws `LockConfigError` with these lines. `ignore`: does not look.
   *
   * @default 'warn'
   */
  readonly decoratorOrder?: 'warn' | 'error' | 'ignore' | undefined;

  /**
   * What to do at start if a class overrides a `@Locked` method, and the override has no `@Locked` and does not call
   * the method by `super`. Its calls take no lock.
   *
   * `warn`: logs one line for each override. `error`: the application does not start, and throws `LockConfigError` with
   * these lines. `ignore`: does not look.
   *
   * @default 'warn'
   */
  readonly unlockedOverride?: 'warn' | 'error' | 'ignore' | undefined;

  /**
   * How long calls and holds may go on when the application shuts down, in milliseconds. It counts from the module's
   * `beforeApplicationShutdown` hook. After that, callers that wait get `LockClosedError`, the signals of holds abort,
   * and their locks are released. Until then, requests that still arrive can lock as long as Nest's servers are open.
   *
   * @default 5000
   */
  readonly shutdownGraceMs?: number | undefined;

  /**
   * The algorithm: the result of `token()`, `timestamp()`, `redisson()`, `quorum()` or `memory()`, or a `LockStore`.
   * The module does not close a `LockStore` that it was given.
   *
   * @default token()
   */
  readonly store?: LockStore | StoreFactory | undefined;
}

/** The name of a module instance without a name. */
export const DEFAULT_INSTANCE = 'default';
