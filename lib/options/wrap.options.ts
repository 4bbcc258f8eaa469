import type { LockTimeoutError, LockUnavailableError } from '../common/errors.js';
import type { LockOptions } from './lock.options.js';

/**
 * The options of `LockService.wrap()`: those of a lock, and what happens to a call that gets no lock.
 *
 * @publicApi
 */
export interface WrapOptions<A extends readonly unknown[] = never[]> extends Omit<LockOptions, 'label' | 'onceMs'> {
  /**
   * Runs the function once in this many milliseconds, over all instances. Less than this after the grant of a run that
   * has ended without an error, the function is not called, and the call returns undefined. Not for a method that
   * returns an Observable. See {@link OnceOptions.onceMs}.
   *
   * @minimum 1
   * @maximum 31536000000
   */
  readonly onceMs?: number | undefined;
  /**
   * What happens if others hold the lock until `waitMs` has elapsed. `throw`: the call rejects with `LockTimeoutError`.
   * `skip`: the function is not called, and the call returns undefined. A function: it is called on the same `this`
   * with the error and the arguments, and the call returns its result. Other errors are always thrown.
   *
   * @default 'throw'
   */
  readonly onBusy?: 'throw' | 'skip' | ((error: LockTimeoutError, ...args: A) => unknown) | undefined;
  /**
   * What happens if Redis cannot be reached or refuses the request. `throw`: the call rejects with
   * `LockUnavailableError`. `skip`: the function is not called, and the call returns undefined. A function: it is
   * called on the same `this` with the error and the arguments, and the call returns its result. **It runs without the
   * lock**, possibly in several processes at the same time. So use it only for work that the lock merely avoids
   * repeating, such as filling a cache, and never for data that the lock keeps consistent. Other errors, including
   * those of the function, are always thrown.
   *
   * @default 'throw'
   */
  readonly onUnavailable?: 'throw' | 'skip' | ((error: LockUnavailableError, ...args: A) => unknown) | undefined;
  /**
   * Names the calls in events and traces. A function is called on the same `this` with the arguments, and returns the
   * name of one call. Its errors are thrown.
   */
  readonly label?: string | ((...args: A) => string | undefined) | undefined;
}

/** What a call returns in place of the function's result, with these options. */
export type InsteadOf<O> =
  | (O extends { readonly onBusy: infer F } ? ResultOf<F> : never)
  | (O extends { readonly onUnavailable: infer F } ? ResultOf<F> : never)
  | (O extends { readonly onceMs: number } ? undefined : never);

type ResultOf<F> = F extends 'skip' ? undefined : F extends (...args: never) => infer R ? Awaited<R> : never;
