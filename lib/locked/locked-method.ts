import type { InjectionToken } from '@nestjs/common';
import type { LockTimeoutError, LockUnavailableError } from '../core/errors.js';
import type { OnLost } from '../core/hold/run-under.js';
import type { LockOptions } from '../options/lock.options.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What happens to a call if others hold the lock until the end of `waitMs`. */
export type OnBusy = 'throw' | 'skip' | ((error: LockTimeoutError, ...args: never[]) => unknown);

/** What happens to a call if the store cannot be reached or refuses the request. */
export type OnUnavailable = 'throw' | 'skip' | ((error: LockUnavailableError, ...args: never[]) => unknown);

/** Returns whether a call with these arguments takes the lock. */
export type When = (...args: never[]) => boolean;

/** Returns the label of a call with these arguments. */
export type LabelOf = (...args: never[]) => string | undefined;

/** A method that is decorated with `@Locked`. */
export interface LockedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The property that holds the lock service of an instance. */
  readonly service: symbol;
  /** The injection token of that lock service. */
  readonly token: InjectionToken;
  readonly options: LockOptions;
  /** Undefined: as the family of the resource has it. */
  readonly onBusy: OnBusy | undefined;
  /** Undefined: as the family of the resource has it. */
  readonly onUnavailable: OnUnavailable | undefined;
  /** Undefined: every call takes the lock. */
  readonly when: When | undefined;
  /** Returns the label of a call, if the method has a function for it. */
  readonly label: LabelOf | undefined;
  /** The family of its resources, if it is not their first segment. */
  readonly family: string | undefined;
  readonly returnsObservable: boolean;
  /** The indexes of the parameters that get the lock. */
  readonly lockIndexes: readonly number[];
  readonly original: Method;
  resourceOf(instance: unknown, args: readonly unknown[]): string | readonly string[];
}

// Keys of metadata, by `Symbol.for`: an application may load this package twice.
const LOCKED_METHOD = Symbol.for('nestjs-redis-lock:locked-method');
const LOCKED_METHODS = Symbol.for('nestjs-redis-lock:locked-methods');
const OWN_WRAPPER = Symbol.for('nestjs-redis-lock:own-wrapper');
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

/** Registers a method by its class and name. A decorator above `@Locked` can replace the function. */
export function registerLocked(target: object, propertyKey: string | symbol, method: LockedMethod): void {
  const methods = new Map(ownLockedMethods(target)).set(propertyKey, method);
  Reflect.defineMetadata(LOCKED_METHODS, methods, target);
}

/** Returns the `@Locked` methods of one prototype by name, without those that it inherits. */
export function ownLockedMethods(prototype: object): ReadonlyMap<string | symbol, LockedMethod> {
  const methods = Reflect.getOwnMetadata(LOCKED_METHODS, prototype) as Map<string | symbol, LockedMethod> | undefined;
  return methods ?? new Map();
}

/**
 * Marks a function that a decorator of this library has put in a method's place, and returns it. The lock of a
 * `@Locked` method below ends with that function at the earliest.
 */
export function markOwnWrapper<F extends object>(wrapper: F): F {
  // Other decorators copy metadata to their own wrappers. A copy still has the original as its value.
  Reflect.defineMetadata(OWN_WRAPPER, wrapper, wrapper);
  return wrapper;
}

/** Returns whether a decorator of this library has made the function. */
export function isOwnWrapper(method: object): boolean {
  return Reflect.getOwnMetadata(OWN_WRAPPER, method) === method;
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
 * Returns a function of this library that calls `apply` in place of a method. It has the name, the number of parameters
 * and all metadata of the method, so that route, schedule and Swagger decorators may stand above or below ours.
 */
export function replaceMethod(original: Method, apply: (instance: unknown, args: unknown[]) => unknown): Method {
  return markOwnWrapper(copyMethod(original, apply));
}

/** Returns what {@link replaceMethod} returns, without the mark of this library. */
export function copyMethod(original: Method, apply: (instance: unknown, args: unknown[]) => unknown): Method {
  const copy = new Proxy(original, {
    apply: (_original, instance: unknown, args: unknown[]) => apply(instance, args),
  });
  for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, original), copy);
  }
  return copy;
}

/** Returns the function of a prototype's own method, `undefined` for an accessor. Calls no getter. */
export function functionOf(prototype: object, propertyKey: string | symbol): object | undefined {
  const value: unknown = Object.getOwnPropertyDescriptor(prototype, propertyKey)?.value;
  return typeof value === 'function' ? value : undefined;
}
