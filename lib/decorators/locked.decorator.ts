import { Inject } from '@nestjs/common';
import { EXCEPTION_FILTERS_METADATA, INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { Observable } from 'rxjs';
import { LockConfigError, type LockTimeoutError } from '../core/errors.js';
import { currentLockIndexes } from './current-lock.decorator.js';
import { describeMethod } from './describe-method.js';
import { getLockServiceToken } from './inject-lock-service.decorator.js';
import { LockExceptionFilter } from '../locked/lock-exception.filter.js';
import type { LockedMethod, Method, OnBusy } from '../locked/locked-call.js';
import { LockedInterceptor } from '../locked/locked.interceptor.js';
import { lockedHandlerOf, wrapMethod } from '../locked/locked-method.js';
import type { RenderResource } from '../core/keys/key-template.js';
import { bindTemplate } from './parameters/bind-template.js';
import { DEFAULT_INSTANCE, type LockOptions } from '../options/redis-lock.options.js';
import { checkLockOptions } from '../options/resolve-options.js';

/**
 * The options of {@link Locked}.
 *
 * @publicApi
 */
export interface LockedOptions<A extends readonly unknown[] = never[]> extends LockOptions {
  /** Which module instance locks, where an application has several. */
  readonly name?: string;
  /**
   * What happens if others hold the lock until `waitMs` is over: `throw` the `LockTimeoutError`; `skip` the call, which
   * answers undefined; or a function, called on the same instance with the error and the arguments, whose answer is the
   * call's. Any other error is thrown in every case.
   *
   * @default 'throw'
   */
  readonly onBusy?: 'throw' | 'skip' | ((error: LockTimeoutError, ...args: A) => unknown);
}

type AnyMethod = (...args: never[]) => unknown;

/** Fails to compile where a key function's parameters are not the method's. */
export type Fits<A extends readonly unknown[], M extends AnyMethod> = [A] extends [never[]]
  ? unknown
  : Parameters<M> extends readonly [...A, ...unknown[]]
    ? unknown
    : { 'the parameters of the key function are not those of the method': A };

/**
 * What {@link Locked} answers: a decorator for methods that take the key function's parameters.
 *
 * @publicApi
 */
export type LockedDecorator<A extends readonly unknown[]> = <M extends AnyMethod>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<M> & Fits<A, M>,
) => void;

/**
 * Runs the method under a lock, for one caller at a time in all processes that share the Redis and the key.
 *
 * ```ts
 * @Locked('goods:<id>')
 * async buy(id: number) { … }
 * ```
 *
 * A placeholder is filled from an argument, by `@LockParam('id')`, by the name in `@Param('id')` and its like, or by the
 * parameter's own name; `<dto.id>` goes on into the argument, `<0>` counts arguments. Several templates, or a placeholder whose
 * value is an array, lock several resources together, and `@CurrentLock()` is a `MultiLock` then. On handlers of controllers, gateways and
 * microservices the lock is taken after guards and pipes, and held until the answer is complete, interceptors included;
 * elsewhere it is held while the method runs. A method that is not declared to return an Observable returns a promise.
 *
 * At decoration it throws `LockKeyError` for a template whose names cannot be bound, and `LockConfigError` for options or
 * methods that cannot work (static ones, accessors, generators, a second `@Locked`).
 *
 * A call rejects as `LockService.using` does; `LockKeyError` also for an argument that makes no key (undefined, an object, an
 * empty array).
 *
 * @publicApi
 */
export function Locked<A extends readonly unknown[] = never[]>(
  resource: string | readonly string[] | ((...args: A) => string | readonly string[]),
  options: LockedOptions<A> = {},
): LockedDecorator<A> {
  const { name = DEFAULT_INSTANCE, onBusy = 'throw', ...lockOptions } = options;
  return (target, propertyKey, descriptor) => {
    const where = describeMethod(target, propertyKey);
    const original = methodOf(where, target, descriptor);
    checkOptions(where, lockOptions, onBusy);
    const method: LockedMethod = {
      name: where,
      service: serviceProperty(name),
      options: lockOptions,
      onBusy: onBusy as OnBusy,
      returnsObservable: returnsObservable(target, propertyKey),
      lockIndexes: currentLockIndexes(target, propertyKey),
      original,
      resourceOf: resourceFunction(where, resource as ResourceOption, target, propertyKey, original),
    };
    Inject(getLockServiceToken(name))(target, method.service);
    const wrapped = wrapMethod(method);
    prepend(INTERCEPTORS_METADATA, LockedInterceptor, wrapped);
    prepend(EXCEPTION_FILTERS_METADATA, LockExceptionFilter, wrapped);
    (descriptor as PropertyDescriptor).value = wrapped;
  };
}

/** The property of an instance that holds the lock service of that name; one for all `@Locked` methods of a class. */
export function serviceProperty(name: string): symbol {
  return Symbol.for(`nestjs-redis-lock:service:${name}`);
}

type ResourceOption = string | readonly string[] | Method;

function resourceFunction(
  where: string,
  resource: ResourceOption,
  target: object,
  propertyKey: string | symbol,
  original: Method,
): LockedMethod['resourceOf'] {
  if (typeof resource === 'function') {
    return (instance, args) => resource.apply(instance, args as unknown[]) as string | readonly string[];
  }
  const bind = (template: string): RenderResource => bindTemplate(template, target, propertyKey, original);
  if (!Array.isArray(resource)) {
    const render = bind(resource as string);
    return (_instance, args) => render(args);
  }
  if (resource.length === 0) throw new LockConfigError(`${where}: @Locked has an empty list: name what is locked.`);
  const renders = resource.map(bind);
  return (_instance, args) => renders.flatMap((render) => render(args));
}

function methodOf(where: string, target: object, descriptor: PropertyDescriptor | undefined): Method {
  const method: unknown = descriptor?.value;
  const refuse = (why: string): never => {
    throw new LockConfigError(`${where}: ${why}`);
  };
  if (typeof method !== 'function') return refuse('@Locked stands above methods only.');
  if (typeof target === 'function')
    return refuse('@Locked needs an instance that Nest makes: static methods have none.');
  if (/Generator/.test(method.constructor.name)) return refuse('@Locked cannot hold a lock for a generator.');
  if (lockedHandlerOf(method) !== undefined) return refuse('there is a second @Locked; nest two methods instead.');
  return method as Method;
}

function checkOptions(where: string, options: LockOptions, onBusy: unknown): void {
  checkLockOptions(options, `@Locked of ${where}`);
  if (onBusy === 'throw' || onBusy === 'skip' || typeof onBusy === 'function') return;
  throw new LockConfigError(`${where}: onBusy is ${String(onBusy)}; allowed is "throw", "skip" or a function.`);
}

function returnsObservable(target: object, propertyKey: string | symbol): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', target, propertyKey);
  return typeof type === 'function' && (type === Observable || type.prototype instanceof Observable);
}

/** Ours goes outside of what stands below `@Locked`, and behind a filter that stands there: that one is more particular. */
function prepend(key: string, value: unknown, wrapped: Method): void {
  const existing = (Reflect.getMetadata(key, wrapped) ?? []) as unknown[];
  Reflect.defineMetadata(key, [value, ...existing], wrapped);
}
