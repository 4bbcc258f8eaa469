import type { LockTimeoutError, LockUnavailableError } from '../core/errors.js';
import type { OnLost } from '../core/hold/run-under.js';
import type { ResolvedLockOptions } from '../options/resolve-options.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What happens to a call if others hold the lock until `waitMs` has elapsed. */
export type OnBusy = 'throw' | 'skip' | ((error: LockTimeoutError, ...args: never[]) => unknown);

/** What happens to a call if the store cannot be reached or refuses the request. */
export type OnUnavailable = 'throw' | 'skip' | ((error: LockUnavailableError, ...args: never[]) => unknown);

/** A method that is decorated with `@Locked`. */
export interface LockedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The name of the method in its class. */
  readonly key: string | symbol;
  /** The options of its lock that were given, checked. `mode` includes the permits and is always there. */
  readonly options: Partial<ResolvedLockOptions> & Pick<ResolvedLockOptions, 'mode'>;
  readonly onBusy: OnBusy;
  readonly onUnavailable: OnUnavailable;
  /** The label of all calls, or a function that returns the label of a call with these arguments. */
  readonly label: string | ((...args: never[]) => string | undefined) | undefined;
  /** The family of its resources, if it is not their first segment. */
  readonly family: string | undefined;
  readonly returnsObservable: boolean;
  /** The indexes of the parameters that get the lock. */
  readonly lockIndexes: readonly number[];
  /** The property of the instances that holds the lock service. */
  readonly service: symbol;
  readonly original: Method;
  resourceOf(instance: unknown, args: readonly unknown[]): string | readonly string[];
}

/** A method that is decorated with `@LockScope`. */
export interface ScopedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  readonly onLost: OnLost | undefined;
  readonly returnsObservable: boolean;
  readonly original: Method;
}

/** What the decorators of this library know about a method. */
export interface DecoratedMethod {
  readonly locked?: LockedMethod;
  readonly scoped?: ScopedMethod;
}

// Metadata keys. `Symbol.for`, because an application may load this package twice.
const DECORATED_METHOD = Symbol.for('nestjs-redis-lock:decorated-method');
const OWN_WRAPPER = Symbol.for('nestjs-redis-lock:own-wrapper');

/** Returns what our decorators know about a function, `undefined` for a function without them. */
export function decoratedMethodOf(method: object): DecoratedMethod | undefined {
  return Reflect.getMetadata(DECORATED_METHOD, method) as DecoratedMethod | undefined;
}

/** Lets {@link decoratedMethodOf} find a method by a function. What is already known about the function stays. */
export function markDecorated(method: object, decorated: DecoratedMethod): void {
  Reflect.defineMetadata(DECORATED_METHOD, { ...decorated, ...decoratedMethodOf(method) }, method);
}

/** The methods below a decorator of this library. Other decorators above can replace the functions of these methods. */
export class MethodRegistry<M> {
  private readonly key: symbol;

  constructor(name: string) {
    this.key = Symbol.for(`nestjs-redis-lock:${name}`);
  }

  /** Registers a method by its class and name. */
  add(target: object, propertyKey: string | symbol, method: M): void {
    Reflect.defineMetadata(this.key, new Map(this.of(target)).set(propertyKey, method), target);
  }

  /** Returns the methods of one prototype by name, without those that it inherits. */
  of(prototype: object): ReadonlyMap<string | symbol, M> {
    return (Reflect.getOwnMetadata(this.key, prototype) as Map<string | symbol, M> | undefined) ?? new Map();
  }
}

/** The `@Locked` methods. */
export const lockedMethods = new MethodRegistry<LockedMethod>('locked-methods');

/**
 * Marks a function that a decorator of this library has put in a method's place, and returns it. The lock of a
 * `@Locked` method below it does not end before that function.
 */
export function markOwnWrapper<F extends object>(wrapper: F): F {
  // Other decorators copy metadata to their own wrappers. A copy still has the original as its value.
  Reflect.defineMetadata(OWN_WRAPPER, wrapper, wrapper);
  return wrapper;
}

/** Returns whether a decorator of this library made the function. */
export function isOwnWrapper(method: object): boolean {
  return Reflect.getOwnMetadata(OWN_WRAPPER, method) === method;
}

/**
 * Returns a function of this library that calls `apply` in place of a method. It has the name, the number of parameters
 * and all metadata of the method, so that route, schedule and Swagger decorators may be above or below ours.
 */
export function replaceMethod(original: Method, apply: (instance: unknown, args: unknown[]) => unknown): Method {
  const copy = new Proxy(original, {
    apply: (_original, instance: unknown, args: unknown[]) => apply(instance, args),
  });
  for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, original), copy);
  }
  return markOwnWrapper(copy);
}

/** Returns the function of a prototype's own method, `undefined` for an accessor. Calls no getter. */
export function functionOf(prototype: object, propertyKey: string | symbol): object | undefined {
  const value: unknown = Object.getOwnPropertyDescriptor(prototype, propertyKey)?.value;
  return typeof value === 'function' ? value : undefined;
}
