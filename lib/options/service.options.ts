/**
 * What `LockService.list()` yields.
 *
 * @publicApi
 */
export interface ListOptions {
  /**
   * A glob over resources: `goods:*`, `goods:30?`, `goods:[0-9]*`. A backslash before a character makes it stand for
   * itself. At most 1,024 characters. Default: all resources.
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
   * Ends the hold only if this is its fencing token, as `inspect` returns it. So it ends the grant that the operator
   * saw, and never a later one. An instance that passes its grant on to its own callers keeps that token in Redis and
   * gives them higher ones. A lock that is shared has no such token. Default: any hold.
   */
  readonly ifToken?: number | undefined;
}

/**
 * The options of `LockService.assertHeld()`.
 *
 * @publicApi
 */
export interface AssertHeldOptions {
  /**
   * `exclusive`: the caller must have the lock alone. `shared`: it may also share it, through `mode: 'shared'` or
   * `permits`.
   *
   * @default 'exclusive'
   */
  readonly mode?: 'exclusive' | 'shared' | undefined;
}
