import type { LockTimeoutError } from '../core/errors.js';
import type { LockOptions } from '../options/redis-lock.options.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What happens to a call if others hold the lock until the end of `waitMs`. */
export type OnBusy = 'throw' | 'skip' | ((error: LockTimeoutError, ...args: never[]) => unknown);

/** A method that is decorated with `@Locked`. */
export interface LockedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The property that Nest injects the lock service into. */
  readonly service: symbol;
  readonly options: LockOptions;
  readonly onBusy: OnBusy;
  readonly returnsObservable: boolean;
  /** The indexes of the parameters that get the lock. */
  readonly lockIndexes: readonly number[];
  readonly original: Method;
  resourceOf(instance: unknown, args: readonly unknown[]): string | readonly string[];
}

const LOCKED_METHOD = Symbol.for('nestjs-redis-lock:locked-method');

/** Returns what `@Locked` knows of a handler, `undefined` for a function without `@Locked`. */
export function lockedMethodOf(handler: object): LockedMethod | undefined {
  return Reflect.getMetadata(LOCKED_METHOD, handler) as LockedMethod | undefined;
}

/** Lets `lockedMethodOf` find the method by the function that `@Locked` has put in its place. */
export function markLocked(handler: object, method: LockedMethod): void {
  Reflect.defineMetadata(LOCKED_METHOD, method, handler);
}
