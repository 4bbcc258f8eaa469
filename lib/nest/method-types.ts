import type { Observable } from 'rxjs';
import type { InsteadOf } from '../options/wrap.options.js';

// Conditional types over the method would be deferred in classes with type parameters. So the method's type is only
// constrained, and conditions depend on the decorator's own arguments.

/** What a method under a lock returns, because the lock is acquired before it runs. Declare the method `async`. */
export type PromiseOrObservable = PromiseLike<unknown> | Pick<Observable<unknown>, 'subscribe' | 'pipe'>;

type LockableMethod = (...args: never) => PromiseOrObservable;

/** A result that fits both into a promise and into an Observable. */
type WhatOnBusyReturns<R> = Promise<R> & Observable<R>;

/** Does not compile if the method's result cannot be what `onBusy` or `onUnavailable` returns in its place. */
type Replaceable<R> = [R] extends [never]
  ? unknown
  : { readonly set?: (method: (...args: never) => WhatOnBusyReturns<R>) => void };

/** Does not compile if the parameters of the method are not those of the key function. */
type WithParameters<P extends readonly unknown[]> = {
  readonly value?: (...args: P) => unknown;
  readonly set?: (method: (...args: P) => never) => void;
};

type TemplateDecorator<R> = <M extends LockableMethod>(
  target: object,
  propertyKey: string | symbol,
  // Optional, so that it is one of the decorators that `applyDecorators` takes.
  descriptor?: TypedPropertyDescriptor<M> & Replaceable<R>,
) => void;

type KeyedDecorator<A extends readonly unknown[], R> = <
  M extends LockableMethod,
  P extends readonly [...A, ...unknown[]] = readonly [...A, ...unknown[]],
>(
  target: object,
  propertyKey: string | symbol,
  descriptor?: TypedPropertyDescriptor<M> & Replaceable<R> & WithParameters<P>,
) => void;

/**
 * The result of `@Locked`: a decorator for methods that return a promise or an Observable. It is the return type of a
 * function that makes a decorator of your own from `@Locked`.
 *
 * @typeParam A the parameters of the key function. Default: there is none.
 * @typeParam R what `onBusy`, `onUnavailable` and `onceMs` return in place of the method's result. Default: nothing.
 *
 * @publicApi
 */
export type LockedDecorator<A extends readonly unknown[] = never[], R = never> = [A] extends [never[]]
  ? TemplateDecorator<R>
  : KeyedDecorator<A, R>;

/** The result of `@Locked` with these options. `onBusy` and `onUnavailable` may return a promise or an Observable. */
export type DecoratorWith<A extends readonly unknown[], O> = LockedDecorator<A, ValueOf<InsteadOf<O>>>;

type ValueOf<R> = R extends Pick<Observable<infer T>, 'subscribe' | 'pipe'> ? T : R;
