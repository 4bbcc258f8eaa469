import type { LockTimeoutError } from '../core/errors.js';
import type { OnLost } from '../core/hold/run-under.js';
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
const SCOPED_METHOD = Symbol.for('nestjs-redis-lock:scoped-method');

/** A method that is decorated with `@LockScope`. */
export interface ScopedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  readonly onLost: OnLost | undefined;
  readonly returnsObservable: boolean;
  readonly original: Method;
}

/** Returns what `@Locked` knows of a handler, `undefined` for a function without `@Locked`. */
export function lockedMethodOf(handler: object): LockedMethod | undefined {
  return Reflect.getMetadata(LOCKED_METHOD, handler) as LockedMethod | undefined;
}

/** Lets `lockedMethodOf` find the method by the function that `@Locked` has put in its place. */
export function markLocked(handler: object, method: LockedMethod): void {
  Reflect.defineMetadata(LOCKED_METHOD, method, handler);
}

/** Returns what `@LockScope` knows of a handler, `undefined` for a function without `@LockScope`. */
export function scopedMethodOf(handler: object): ScopedMethod | undefined {
  return Reflect.getMetadata(SCOPED_METHOD, handler) as ScopedMethod | undefined;
}

/** Lets `scopedMethodOf` find the method by the function that `@LockScope` has put in its place. */
export function markScoped(handler: object, method: ScopedMethod): void {
  Reflect.defineMetadata(SCOPED_METHOD, method, handler);
}

/**
 * Returns a function that calls `apply` in place of a method. It has the name, the number of parameters and all
 * metadata of the method, so that route, schedule and Swagger decorators may stand above or below ours.
 */
export function replaceMethod(original: Method, apply: (instance: unknown, args: unknown[]) => unknown): Method {
  const replaced = new Proxy(original, {
    apply: (_original, instance: unknown, args: unknown[]) => apply(instance, args),
  });
  for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, original), replaced);
  }
  return replaced;
}
