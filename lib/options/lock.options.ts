/**
 * The options of one lock, without its mode. Interfaces may extend it.
 *
 * @publicApi
 */
export interface CommonLockOptions {
  /**
   * The lease in milliseconds: Redis deletes the lock after this time if the holder does not renew it. A long lease
   * blocks others for longer after a crash. A short lease is lost sooner if the process or Redis pauses, and is renewed
   * more often, after each third of it. Work that blocks the event loop for less than two thirds of the lease keeps its
   * lock.
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
   * How many callers of this instance may wait for one lock. Further callers are refused immediately with a
   * `LockTimeoutError` whose `isQueueFull` is true. Pending requests also count. `Infinity`: no limit.
   *
   * Readers (`mode: 'shared'`) are served together, so 50 of them count as one.
   *
   * @default 1000
   * @minimum 1
   */
  readonly maxWaiting?: number | undefined;

  /**
   * Loses the lock this long after the grant, in milliseconds, so that hung work cannot keep it: the `signal` aborts,
   * and others can get the lock. If `ttlMs` is longer, the lease ends with this time too, and is not renewed.
   *
   * @default Infinity
   * @minimum 1
   */
  readonly maxHoldMs?: number | undefined;

  /**
   * Keeps the lock held in Redis for this long after the grant, in milliseconds, even if its holder releases it sooner.
   * The release does not wait. At most `maxHoldMs`. For a job that runs once at each tick, see {@link OnceOptions}.
   *
   * @default 0
   */
  readonly minHoldMs?: number | undefined;

  /**
   * Logs one warning about a lock that is still renewed this long after the grant, in milliseconds, because its work
   * may hang. `false` or `Infinity`: never. Does not apply to leaders, nor to `@Locked` methods that return an
   * Observable, unless the method sets it.
   *
   * @default 30000
   * @minimum 1
   */
  readonly warnHeldMs?: number | false | undefined;

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
   * result is passed on as soon as the release is requested, which saves a round trip to Redis. The release is sent by
   * the end of the event loop's tick. The lock stays held until the release arrives. A failed release is retried as
   * usual, and the shutdown waits for it.
   *
   * A lock scope always waits for its releases, and so does a caller that awaits `lock.release()`.
   *
   * @default true
   */
  readonly awaitRelease?: boolean | undefined;

  /** Stops the wait when it aborts. The request is rejected with the signal's reason. No effect after the grant. */
  readonly signal?: AbortSignal | undefined;

  /**
   * Names the call in events, traces, errors and `inspect`, such as a request id. The first 128 characters are shown,
   * with `?` in place of unprintable ones, so it may be a header that a client sent. For an exclusive lock with
   * `token()`, the label and the method are in Redis while the lock is held, so that all instances show them. There
   * they have at most 120 characters, percent-encoded.
   */
  readonly label?: string | undefined;
}

/**
 * The options of one lock. The module's options are the defaults. `mode` and `permits` exclude each other.
 *
 * @publicApi
 */
export type LockOptions = CommonLockOptions & HowToShare & NotOnce;

/**
 * The options of `using` for work that runs once, such as a job that every instance starts.
 *
 * @publicApi
 */
export interface OnceOptions extends Omit<CommonLockOptions, 'minHoldMs'> {
  /**
   * Runs the work once in this many milliseconds, over all instances. Less than this after the grant of a run that has
   * ended without an error, the work is done: it is not called, and the call returns undefined. Redis keeps that mark,
   * and counts the time on its own clock. While a run is still going on, the call waits, and is refused as busy
   * after `waitMs`. After a run that failed, or whose holder died, the next call runs.
   *
   * For a job, choose less than its period minus the jitter of its timer and the difference of the machines' clocks:
   * 30,000 for a job of each minute.
   *
   * The work may still run twice: if its process dies after the effect and before the mark, if the release does not
   * reach Redis within the lease, or if Redis loses its data.
   *
   * For an exclusive lock of one resource, with `token()` or `memory()`. Not allowed with `minHoldMs`, whose default of
   * the module does not apply. `acquire` and `tryAcquire` refuse it, because they do not know whether work succeeded.
   *
   * @minimum 1
   * @maximum 31536000000
   */
  readonly onceMs: number;
  readonly minHoldMs?: undefined;
  readonly mode?: 'exclusive' | undefined;
  readonly permits?: undefined;
}

/** The options of a call that runs its work each time. */
interface NotOnce {
  readonly onceMs?: undefined;
}

/** How others may hold the lock at the same time. */
export type HowToShare = ModeOption | PermitsOption;

interface ModeOption {
  /**
   * `exclusive`: one holder at a time, for writers. `shared`: any number of readers, but no writer at the same time.
   *
   * Requests are served in arrival order. A reader that arrives after a waiting writer is served after that writer, so
   * neither can starve. Readers can starve a writer if pub/sub is refused, because Redis then keeps no queue.
   *
   * A holder of the exclusive lock may acquire it shared inside. A shared lock cannot be upgraded. Two readers that
   * upgrade at the same time would deadlock, so the attempt throws `LockReentryError`.
   *
   * A mode that the store does not support is refused with `LockConfigError`: for `@Locked` when the application
   * starts, for `LockService` at the call.
   *
   * @default 'exclusive'
   */
  readonly mode?: 'exclusive' | 'shared' | undefined;

  readonly permits?: undefined;
}

interface PermitsOption {
  readonly mode?: undefined;

  /**
   * Makes the lock a semaphore: this many holders at a time, each with its own lease. Cannot be combined with `mode`. A
   * request with neither waits until there is no holder, and then has the lock alone.
   *
   * All callers must pass the same `permits` for a resource. A different value throws `LockConfigError` while the
   * resource is held. If the store has no permits, they are refused as described for `mode`.
   *
   * Tokens of concurrent holders are not ordered, and may be equal within one module instance. Use a fence with
   * exclusive locks only.
   *
   * @minimum 1
   * @maximum 1000000
   */
  readonly permits?: number | undefined;
}
