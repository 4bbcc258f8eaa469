import type { RedisOptions } from 'ioredis';
import type { LockStore } from '../core/store/lock-store.js';
import type { RedisClient, RedisClusterOptions } from '../redis/redis-client.js';
import type { ReplicaOptions } from '../stores/token/replication/replica-options.js';
import type { StoreFactory } from '../stores/store-context.js';

export type { RedisClusterOptions };

/**
 * How one lock is asked for and kept. What is left out comes from the module's options.
 *
 * @publicApi
 */
export interface LockOptions {
  /**
   * The lease, in milliseconds: how long Redis keeps the lock without a renewal. Long: a crashed holder blocks others for
   * that long. Short: a pause of the process or of Redis loses the lock sooner, and renewals, at a third of it, cost more.
   * A lock that was handed over by another instance begins with 3 s at most, and is brought to this 20 ms later.
   *
   * @default 30000
   * @minimum 50
   */
  readonly ttlMs?: number;

  /**
   * How long to wait for a lock that others hold, in milliseconds; 0 does not wait, Infinity waits for ever. Long: callers
   * pile up behind a slow holder. Short: they fail with `LockTimeoutError` although the lock would soon be free.
   *
   * @default 5000
   */
  readonly waitMs?: number;

  /**
   * Renews the lease for as long as the hold lasts. Off: the lock is lost when `ttlMs` is over, whatever the work is doing;
   * only a lease that began shorter, because the lock was handed over, is made up for.
   *
   * @default true
   */
  readonly renew?: boolean;

  /**
   * Ends renewal this long after the grant, in milliseconds: the lock is lost then, so that work which hangs does not
   * keep it for ever. Too short, and slow work loses its lock.
   *
   * @default Infinity
   */
  readonly maxHoldMs?: number;

  /**
   * Keeps the lock closed this long after the grant, in milliseconds, even if the work ended sooner, without keeping the
   * caller waiting: a cron job of 1 ms on machines whose clocks differ by less than this runs once. Everybody else waits
   * that long at least.
   *
   * @default 0
   */
  readonly minHoldMs?: number;

  /**
   * Lets work that holds the lock take it again, as a nested hold of the same grant. Off: asking again is a
   * `LockReentryError`, which finds accidental nesting; it is never a deadlock.
   *
   * @default true
   */
  readonly reentrant?: boolean;

  /**
   * What the caller of `using` or of a `@Locked` method gets when the lock was lost while the work ran: `throw`, a
   * `LockLostError` whose `cause` is the work's own error; `ignore`, the work's own result or error, which may have been
   * made beside another holder.
   *
   * @default 'throw'
   */
  readonly onLost?: 'throw' | 'ignore';

  /** Ends the waiting with its reason. Once the lock is held it has no effect. */
  readonly signal?: AbortSignal;

  /**
   * With whom the lock is shared. `exclusive`, for whoever writes: with nobody. `shared`, for whoever reads: with all others who
   * ask for it shared. All wait in one line, in order of arrival: who comes behind a waiting writer reads after it, so that
   * readers never starve one (where there is no queue, with `quorum()` or because hand-offs cannot be heard, they may). Whoever holds the lock exclusively may take it shared inside, but not the other way round: two
   * readers who both want to write would wait for each other, so that this is a `LockReentryError`.
   *
   * @default 'exclusive'
   */
  readonly mode?: 'exclusive' | 'shared';

  /**
   * Makes the lock a semaphore: so many may hold it at once, each with a lease and a fencing token of its own. All who lock a
   * resource name the same number; another one than it is held with is a `LockConfigError` that names both. Who asks for the
   * resource with neither `permits` nor `mode` waits until nobody holds it, and has it alone. Not together with `mode`. Tokens of
   * those who hold a lock beside one another say nothing about each other: a fence is for locks that are held alone. Like `mode`,
   * it is refused where the store does not have it: by `@Locked` when the application starts, by a `LockService` at the call.
   */
  readonly permits?: number;
}

/**
 * The options of `RedisLockModule.forRoot()`. Those of {@link LockOptions} are the defaults of every lock of the module.
 *
 * @publicApi
 */
export interface RedisLockModuleOptions extends Omit<LockOptions, 'signal' | 'mode' | 'permits'> {
  /**
   * Where Redis is: a URL, options of ioredis, or a client of ioredis; for a cluster `{ nodes: [...] }` beside options of
   * ioredis' Cluster, or such a client. A client that is given stays the caller's: nothing is defined on it and it is never
   * closed. With a URL or options the module opens one connection, or one to each node, and closes it at the end. Sharing a
   * client saves a connection; its queue and its settings are then shared too.
   *
   * @default 'redis://127.0.0.1:6379'
   */
  readonly redis?: string | RedisOptions | RedisClusterOptions | RedisClient;

  /**
   * Stands before every resource in its key; may be empty. It keeps locks apart from other data and other applications: two
   * applications lock each other out only if theirs are equal.
   *
   * @default 'lock_'
   */
  readonly prefix?: string;

  /**
   * What the braces of a key hold, which decide its slot in a cluster. `family`, the first segment: `{lock_goods}:300`, so
   * that a family shares a slot and several of it can be locked at once. `resource`, all of it: `{lock_goods:300}`, so that a
   * hot family is spread over all nodes. Braces in a resource are kept: `goods:{300}`.
   *
   * @default 'family'
   */
  readonly hashTag?: 'family' | 'resource';

  /**
   * Makes the key from the resource, to the letter, in place of `prefix` and `hashTag`: to meet another system's keys. Two
   * resources that get the same key exclude each other.
   */
  readonly key?: (resource: string) => string;

  /**
   * How often a lock may be passed on among those who wait for it in this module instance, before other instances get their
   * turn. Passing costs Redis nothing and takes microseconds. Many: a busy resource is served fast, and those who wait in
   * other instances are overtaken up to that often each time. 0: strict order, and every hand-over goes through Redis.
   *
   * @default 16
   */
  readonly maxLocalPasses?: number;

  /**
   * How long a lock may be passed on within this module instance, in milliseconds from the grant by Redis. Long: fewer
   * requests. Short: other instances wait less. Locks that are held for longer than this are never passed on.
   *
   * @default 50
   */
  readonly maxLocalHoldMs?: number;

  /**
   * Keeps a lock closed this much longer, in milliseconds, if its lease ran out or it was lost, and nobody released it: for resources
   * that cannot check a fencing token, so that writes which a paused holder has under way arrive before the next one gets the
   * lock. Give all instances the same. Long: locks of crashed holders are closed longer. A release frees at once.
   *
   * @default 0
   */
  readonly lockDelayMs?: number;

  /**
   * How long one request to Redis may take, in milliseconds. Long: callers learn late that Redis is gone. Short: a slow
   * Redis looks like one that is gone.
   *
   * @default 1000
   * @minimum 10
   */
  readonly requestTimeoutMs?: number;

  /**
   * How many replicas have to know of a lock before it counts, so that a failover does not forget it: `{ min: 1, timeoutMs: 50 }`.
   * It costs a second connection, and a round trip to the replicas with each grant and each renewal. Too few in time: the lock
   * is given back, and its callers get `LockReplicationError`. For the store `token()`.
   */
  readonly replicas?: ReplicaOptions;

  /**
   * How long running holds may finish when the application shuts down, in milliseconds; then their signals abort and their
   * locks are released. Long: deployments wait for slow work. Short: it loses its lock.
   *
   * @default 5000
   */
  readonly shutdownGraceMs?: number;

  /**
   * The algorithm: what `token()`, `timestamp()`, `redisson()`, `quorum()` or `memory()` answers, or a store of your own. One
   * that is given ready-made is not closed by the module.
   *
   * @default token()
   */
  readonly store?: LockStore | StoreFactory;
}

/** The name of a module instance that was given none. */
export const DEFAULT_INSTANCE = 'default';
