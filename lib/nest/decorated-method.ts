import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import type { InjectionToken, Type, NestInterceptor } from '@nestjs/common';
import type { OnLost } from '../engine/options.js';
import type { WorkOptions } from '../wrapped-function.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** The lock service that Nest injects into a class with decorated methods. */
export interface ServiceBinding {
  readonly token: InjectionToken;
  /** The property of the instances that holds the service. */
  readonly service: symbol;
}

/** A method that is decorated with `@Locked`. */
export interface LockedMethod extends ServiceBinding, WorkOptions {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The name of the method in its class. */
  readonly key: string | symbol;
  readonly returnsObservable: boolean;
  /** The indexes of the parameters that get the lock. */
  readonly lockIndexes: readonly number[];
  readonly original: Method;
  resourceOf(instance: unknown, args: readonly unknown[]): string | readonly string[];
}

/** A method that is decorated with `@LockScope`. */
export interface ScopedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The name of the method in its class. */
  readonly key: string | symbol;
  readonly onLost: OnLost | undefined;
  readonly returnsObservable: boolean;
  readonly original: Method;
}

/** What the decorators of this library know about a method. */
export interface DecoratedMethod {
  readonly locked?: LockedMethod;
  readonly scoped?: ScopedMethod;
}

interface Mark extends DecoratedMethod {
  /** The function that our outermost decorator has put in the method's place. */
  readonly wrapper: object;
}

// Metadata keys. `Symbol.for`, because a process may load this package as CommonJS and as ES modules.
const DECORATED_METHOD = Symbol.for('nestjs-redis-lock:decorated-method');

/** Returns what our decorators know about a function. Undefined for a function without them. */
export function decoratedMethodOf(method: object): DecoratedMethod | undefined {
  return Reflect.getMetadata(DECORATED_METHOD, method) as Mark | undefined;
}

/** Returns whether a decorator of this library made the function. Other decorators copy our metadata to theirs. */
export function isOwnWrapper(method: object): boolean {
  return (Reflect.getMetadata(DECORATED_METHOD, method) as Mark | undefined)?.wrapper === method;
}

/**
 * Returns a function that calls `apply` in place of a method. It has the method's name, number of parameters,
 * properties and metadata, so that route, schedule and Swagger decorators may be above or below ours. If it is a
 * handler, Nest runs `interceptor` around it, outside the interceptors of decorators below ours.
 */
export function wrapMethod(
  original: Method,
  decorated: DecoratedMethod,
  interceptor: Type<NestInterceptor>,
  apply: (instance: unknown, args: unknown[]) => unknown,
): Method {
  const wrapper: Method = function (this: unknown, ...args) {
    return apply(this, args);
  };
  const { prototype: _prototype, ...properties } = Object.getOwnPropertyDescriptors<object & { prototype?: unknown }>(
    original,
  );
  Object.defineProperties(wrapper, properties);
  for (const key of Reflect.getMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, original), wrapper);
  }
  const mark: Mark = { ...decoratedMethodOf(original), ...decorated, wrapper };
  Reflect.defineMetadata(DECORATED_METHOD, mark, wrapper);
  prependMetadata(INTERCEPTORS_METADATA, interceptor, wrapper);
  return wrapper;
}

/** Puts a class first in a list of Nest's metadata, unless the list contains it. */
export function prependMetadata(key: string, value: unknown, target: object): void {
  const existing = (Reflect.getMetadata(key, target) ?? []) as unknown[];
  if (!existing.includes(value)) Reflect.defineMetadata(key, [value, ...existing], target);
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

  /** Returns the methods of a class by name. Those of the class itself take precedence over those that it inherits. */
  ofChain(prototype: object): ReadonlyMap<string | symbol, M> {
    return new Map(
      chainOf(prototype)
        .toReversed()
        .flatMap((each) => [...this.of(each)]),
    );
  }
}

/** The `@Locked` methods. */
export const lockedMethods = new MethodRegistry<LockedMethod>('locked-methods');

/** Returns an object and its prototypes, without `Object.prototype`. */
export function chainOf(start: object): readonly object[] {
  const chain: object[] = [];
  for (let each: object | null = start; each !== null; each = Object.getPrototypeOf(each) as object | null) {
    if (each !== Object.prototype) chain.push(each);
  }
  return chain;
}

/** Returns the function of a prototype's own method. Undefined for an accessor. Calls no getter. */
export function functionOf(prototype: object, propertyKey: string | symbol): object | undefined {
  const value: unknown = Object.getOwnPropertyDescriptor(prototype, propertyKey)?.value;
  return typeof value === 'function' ? value : undefined;
}
