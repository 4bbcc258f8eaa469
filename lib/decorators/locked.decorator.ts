import { Observable } from 'rxjs';
import { familyOfTemplate } from '../core/events/call.js';
import { LockConfigError, type LockTimeoutError, type LockUnavailableError } from '../core/errors.js';
import { currentLockIndexes } from './current-lock.decorator.js';
import { methodBelow, refuseStatic } from './describe-method.js';
import { injectServiceInto } from './inject-lock-service.decorator.js';
import { wrapMethod } from '../locked/locked-call.js';
import { decoratedMethodOf, type LockedMethod, lockedMethods, type Method } from '../locked/locked-method.js';
import { serveHandler } from '../locked/serve-handler.js';
import type { RenderResource } from '../core/keys/key-template.js';
import { isList, readList } from '../core/keys/read-list.js';
import { modeOf } from '../core/store/lock-mode.js';
import { bindTemplate } from './parameters/bind-template.js';
import type { LockOptions } from '../options/lock.options.js';
import { checkAt } from '../options/option-table.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { checkMode } from '../options/resolve-options.js';

/**
 * The options of {@link Locked}.
 *
 * @publicApi
 */
export interface LockedOptions<A extends readonly unknown[] = never[]> extends Omit<LockOptions, 'label'> {
  /**
   * The `name` of the module instance that acquires the lock, if an application has several.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
  /**
   * What happens if others hold the lock until `waitMs` has elapsed. `throw`: the call rejects with `LockTimeoutError`.
   * `skip`: the method is not called, and the call returns undefined. A function: it is called on the same instance
   * with the error and the arguments, and the call returns its result. Other errors are always thrown.
   *
   * @default 'throw'
   */
  readonly onBusy?: 'throw' | 'skip' | ((error: LockTimeoutError, ...args: A) => unknown) | undefined;
  /**
   * What happens if Redis cannot be reached or refuses the request. `throw`: the call rejects with
   * `LockUnavailableError`. `skip`: the method is not called, and the call returns undefined. A function: it is called
   * on the same instance with the error and the arguments, and the call returns its result. **It runs without the
   * lock**, possibly in several processes at the same time. So use it only for work that the lock merely avoids
   * repeating, such as filling a cache, and never for data that the lock keeps consistent. Other errors, including
   * those of the method, are always thrown.
   *
   * @default 'throw'
   */
  readonly onUnavailable?: 'throw' | 'skip' | ((error: LockUnavailableError, ...args: A) => unknown) | undefined;
  /**
   * Names the calls in events, traces and `inspect`. A function is called on the same instance with the arguments, and
   * returns the name of one call. Its errors are thrown.
   */
  readonly label?: string | ((...args: A) => string | undefined) | undefined;
}

type AnyMethod = (...args: never[]) => unknown;

/** Does not compile if the parameters of the key function are not those of the method. */
export type Fits<A extends readonly unknown[], M extends AnyMethod> = [A] extends [never[]]
  ? unknown
  : Parameters<M> extends readonly [...A, ...unknown[]]
    ? unknown
    : { 'the parameters of the key function are not those of the method': A };

/**
 * Does not compile for a generator, whose code runs after the method has returned. Other synchronous methods compile,
 * because a handler may be one: Nest awaits its result. The module refuses them at startup if they are not handlers.
 */
export type NoGenerator<M extends AnyMethod> = [ReturnType<M>] extends [never]
  ? unknown
  : 0 extends 1 & ReturnType<M>
    ? unknown
    : ReturnType<M> extends Generator<unknown, unknown, never> | AsyncGenerator<unknown, unknown, never>
      ? { '@Locked cannot hold a lock for a generator: return a promise or an Observable': never }
      : unknown;

/** Stands for the method if a decorator is put above something else. */
declare const NO_METHOD: unique symbol;
export type NoMethod = (() => unknown) & { readonly [NO_METHOD]: true };

/** Does not compile above a property, for which a compiler passes no descriptor. */
export type OnlyMethods<M extends AnyMethod> = [M] extends [NoMethod]
  ? { 'this decorator can only be above a method': never }
  : void;

/**
 * The result of {@link Locked}: a decorator for methods that have the key function's parameters. Nest's
 * `applyDecorators` also accepts it, but the compiler does not check the parameters there.
 *
 * @publicApi
 */
export type LockedDecorator<A extends readonly unknown[]> = <M extends AnyMethod = NoMethod>(
  target: object,
  propertyKey: string | symbol,
  // Optional, so that it is one of the decorators that `applyDecorators` takes.
  descriptor?: TypedPropertyDescriptor<M> & Fits<A, M> & NoGenerator<M>,
) => OnlyMethods<M>;

/**
 * Runs the method under a lock: one call at a time, in all processes that use the same Redis and the same key.
 *
 * ```ts
 * @Locked('goods:<id>')
 * async buy(id: number) { … }
 * ```
 *
 * A placeholder takes the value of a parameter. `<id>` is the parameter with `@LockParam('id')`, with `@Param('id')` or
 * another named Nest decorator, or with the name `id`. `<dto.id>` is a property of the parameter `dto`, and `<0>` is
 * the first parameter.
 *
 * A list of templates, or a spread placeholder such as `<...ids>`, locks several resources together. `@CurrentLock()`
 * is then a `MultiLock`. Everywhere else, an array throws `LockKeyError`, so that a client that sends an array cannot
 * choose how many resources are locked.
 *
 * A handler of a controller, a gateway or a microservice acquires the lock after guards and pipes. The lock is held
 * until the response is complete, interceptors included. A timeout or a client disconnect does not release the lock
 * while the method is still running. Any other method holds the lock while it runs.
 *
 * The method returns a promise, unless its declared return type is an Observable.
 *
 * @param resource a template, a list of templates, or a function that returns the resource for the arguments.
 * @throws {LockKeyError} at decoration, if a template is invalid or has a name that cannot be bound. At the call, if an
 * argument cannot form a key: undefined, an object, an empty array.
 * @throws {LockConfigError} at decoration, if an option is not allowed, or if the decorator is on a static method, an
 * accessor, a generator or a method with another `@Locked`.
 * @throws what {@link LockService.using} throws, at the call.
 *
 * @publicApi
 */
export function Locked<A extends readonly unknown[] = never[]>(
  resource: string | readonly string[] | ((...args: A) => string | readonly string[]),
  options: LockedOptions<A> = {},
): LockedDecorator<A> {
  const decorate = (target: object, propertyKey: string | symbol, descriptor?: PropertyDescriptor): void => {
    const { where, original } = methodBelow('@Locked', target, propertyKey, descriptor, 'hold a lock for');
    refuseStatic('@Locked', where, target);
    // A wrapper between the two decorators may have no metadata, but the class has the registration.
    if (decoratedMethodOf(original)?.locked !== undefined || lockedMethods.of(target).has(propertyKey))
      throw new LockConfigError(`${where}: there is a second @Locked; nest two methods instead.`);
    const place = `@Locked of ${where}`;
    const known = checkMode(checkAt('@Locked', options as LockedOptions, place), place);
    const { name = DEFAULT_INSTANCE, onBusy = 'throw', onUnavailable = 'throw', label, ...rest } = known;
    const { mode, permits, ...lockOptions } = rest;
    const method: LockedMethod = {
      name: where,
      key: propertyKey,
      options: { ...lockOptions, mode: modeOf({ mode, permits }) },
      onBusy,
      onUnavailable,
      label,
      family: typeof resource === 'string' ? familyOfTemplate(resource) : undefined,
      returnsObservable: returnsObservable(target, propertyKey),
      lockIndexes: currentLockIndexes(target, propertyKey),
      original,
      resourceOf: resourceFunction(where, resource as ResourceOption, target, propertyKey, original),
      service: injectServiceInto(target, name),
    };
    const wrapped = wrapMethod(method, target, propertyKey);
    serveHandler(wrapped, target, propertyKey, { locked: method });
    lockedMethods.add(target, propertyKey, method);
    (descriptor as PropertyDescriptor).value = wrapped;
  };
  return decorate as LockedDecorator<A>;
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
    return (instance, args) => Reflect.apply(resource, instance, args) as string | readonly string[];
  }
  const bind = (template: string): RenderResource => bindTemplate(template, target, propertyKey, original);
  if (!isList(resource)) {
    const render = bind(resource);
    return (_instance, args) => render(args);
  }
  const templates = readList(resource, () => `${where}: the list of @Locked`);
  const renders = templates.map((template) => bind(template as string));
  return (_instance, args) => renders.flatMap((render) => render(args));
}

export function returnsObservable(target: object, propertyKey: string | symbol): boolean {
  const type: unknown = Reflect.getMetadata('design:returntype', target, propertyKey);
  return typeof type === 'function' && (type === Observable || type.prototype instanceof Observable);
}
