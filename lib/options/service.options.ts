/**
 * The options of `LockService.list()`.
 *
 * @publicApi
 */
export interface ListOptions {
  /**
   * A pattern over resources: `goods:*`. Each `*` stands for any text, and all other characters for themselves. At most
   * 1,024 characters. Default: all resources.
   */
  readonly match?: string | undefined;
  /**
   * About how many keys a server reads in one step, from 1 to 100,000. A higher number makes fewer, longer requests.
   *
   * @default 1000
   */
  readonly count?: number | undefined;
}

/**
 * The options of `LockService.forceRelease()`.
 *
 * @publicApi
 */
export interface ForceReleaseOptions {
  /**
   * Ends the hold only if this is its fencing token, as `inspect` returns it. So only the grant that the operator saw
   * is ended, never a later one. An instance that passes its grant on to its own callers keeps this token in Redis and
   * gives the callers higher ones. A shared lock has no such token. Default: ends any hold.
   */
  readonly ifToken?: number | undefined;
}

/**
 * The options of `LockService.extend()`.
 *
 * @publicApi
 */
export interface ExtendOptions {
  /**
   * The new lease in milliseconds, counted from now. Never shortens the current lease. Default: the `ttlMs` that
   * `detach()` was given.
   *
   * @minimum 50
   */
  readonly ttlMs?: number | undefined;
}

/**
 * The options of `LockService.resume()`. `maxHoldMs` counts from the first grant, so it is not among them.
 *
 * @publicApi
 */
export interface ResumeOptions {
  /**
   * The lease of each renewal in milliseconds. Default: that of the module.
   *
   * @minimum 50
   */
  readonly ttlMs?: number | undefined;
  /** A hold that is renewed for longer than this is reported once. Default: that of the module. */
  readonly warnHeldMs?: number | false | undefined;
  /** The caller's name for the call, in events and errors. Default: none. */
  readonly label?: string | undefined;
}

/**
 * The options of `LockService.assertHeld()`.
 *
 * @publicApi
 */
export interface AssertHeldOptions {
  /**
   * `exclusive`: the caller must have the lock alone. `shared`: the caller may also share the lock, through
   * `mode: 'shared'` or `permits`.
   *
   * @default 'exclusive'
   */
  readonly mode?: 'exclusive' | 'shared' | undefined;
}
