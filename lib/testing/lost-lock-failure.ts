/**
 * An await after which the loss of the lock breaks the invariant.
 *
 * @publicApi
 */
export interface UnsafeAwait {
  /** Where it is, such as `src/shop.service.ts:41:20`. */
  readonly place: string;
  /** The function that awaits, `StockService.buy`. Undefined if it has no name. */
  readonly method: string | undefined;
  /** The locks that were lost. */
  readonly resources: readonly string[];
  /** What the invariant threw. Undefined if it returned false. */
  readonly reason: unknown;
}

/**
 * Thrown by `survivesLostLock()` if the invariant does not hold after a loss. `cause` is what the invariant threw.
 *
 * @publicApi
 */
export class LostLockFailure extends Error {
  override readonly name = 'LostLockFailure';

  /** @param awaits in the order in which the call reaches them. */
  constructor(readonly awaits: readonly UnsafeAwait[]) {
    const lines = awaits.map(({ place, method, resources }) => {
      return `  ${resources.join(', ')} lost after the await at ${place}${method === undefined ? '' : ` (${method})`}`;
    });
    super(
      `The invariant does not hold if the lock is lost and another holder runs before the call resumes:\n` +
        `${lines.join('\n')}\n` +
        'Call lock.assertHeld() after that await, right before the write, or pass lock.fencingToken to a fence.',
      { cause: awaits.at(0)?.reason },
    );
  }
}
