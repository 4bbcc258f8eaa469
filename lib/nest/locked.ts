import { LockConfigError } from '../common/errors.js';
import { type ResourceOption, resourceOfCall } from '../keys/bind-template.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import type { WrapOptions } from '../options/wrap.options.js';
import { resolveWork } from '../wrapped-function.js';
import { injectServiceInto } from './bind.js';
import { decoratedMethodOf, type LockedMethod, lockedMethods, wrapMethod } from './decorated-method.js';
import { LockedInterceptor } from './interceptor.js';
import { answerErrorsOf } from './lock-exception.filter.js';
import { callLocked } from './locked-call.js';
import { methodBelow, refuseBare, returnsObservable } from './method-below.js';
import type { DecoratorWith } from './method-types.js';
import { bindTemplate, currentLockIndexes, LOCKED } from './parameters.js';

/**
 * The options of {@link Locked}: those of `LockService.wrap()`, and the module instance. The function is the method.
 *
 * @publicApi
 */
export interface LockedOptions<A extends readonly unknown[] = never[]> extends WrapOptions<A> {
  /**
   * The `name` of the module instance that acquires the lock, if an application has several.
   *
   * @default 'default'
   */
  readonly name?: string | undefined;
}

/**
 * Runs the method under a lock: one call at a time, in all processes that use the same Redis and the same key.
 *
 * ```ts
 * class GoodsService { @Locked('goods:<id>') async buy(id: number) { … } }
 * ```
 *
 * A placeholder takes the value of a parameter. `<id>` is the parameter with `@LockParam('id')`, with `@Param('id')` or
 * another named Nest decorator, or with the name `id`. `<dto.id>` is a property of the parameter `dto`, and `<0>` is
 * the first parameter. A parameter with a default value needs a function in place of the template.
 *
 * A list of templates, or a spread placeholder such as `<...ids>`, locks several resources together. `@CurrentLock()`
 * is then a `MultiLock`. Everywhere else, an array throws `LockKeyError`, so that a client that sends an array cannot
 * choose how many resources are locked.
 *
 * A handler of a controller, a gateway or a microservice acquires the lock after guards and pipes. The lock is held
 * until the response is complete, interceptors included. A timeout or a client disconnect does not release the lock
 * while the method is still running. Any other method holds the lock while it runs.
 *
 * The method returns a promise, or an Observable as its declared return type. A method that returns anything else does
 * not compile. Without types, its first call logs an error, and all its calls reject.
 *
 * @param resource a template, a list of templates, or a function that returns the resource for the arguments.
 * @throws {LockKeyError} at decoration, if a template is invalid, has a name that cannot be bound, or names a parameter
 * with a default value. At the call, if an argument cannot form a key: undefined, an object, an empty array.
 * @throws {LockConfigError} at decoration, if an option is not allowed, or if the decorator has no parentheses, or is
 * on a static method, an accessor, a generator or a method with another `@Locked`.
 * @throws what {@link LockService.using} throws, at the call.
 *
 * @publicApi
 */
export function Locked<A extends readonly unknown[] = never[], O extends LockedOptions<A> = object>(
  resource: string | readonly string[] | ((...args: A) => string | readonly string[]),
  options?: LockedOptions<A> & O,
): DecoratorWith<A, O>;
export function Locked(...args: unknown[]): unknown {
  refuseBare('@Locked', args, `@Locked('goods:<id>')`);
  const [resource, options = {}] = args as [ResourceOption, LockedOptions?];
  return (target: object, propertyKey: string | symbol, descriptor?: PropertyDescriptor): void => {
    const { where, original } = methodBelow('@Locked', target, propertyKey, descriptor, 'hold a lock for');
    const place = `@Locked of ${where}`;
    // A wrapper between the two decorators may have no metadata, but the class has the registration.
    if (decoratedMethodOf(original)?.locked !== undefined || lockedMethods.of(target).has(propertyKey))
      throw new LockConfigError(`${where}: there is a second @Locked; nest two methods instead.`);
    const { name = DEFAULT_INSTANCE, ...work } = resolveWork('@Locked', place, options, resource);
    const isStream = returnsObservable(target, propertyKey);
    if (isStream && work.options.onceMs !== undefined)
      throw new LockConfigError(`${place}: onceMs is set for a method that returns an Observable; expected a promise.`);
    const method: LockedMethod = {
      ...work,
      name: where,
      key: propertyKey,
      returnsObservable: isStream,
      lockIndexes: currentLockIndexes(target, propertyKey),
      original,
      resourceOf: resourceOfCall(resource, where, LOCKED, (template) =>
        bindTemplate(template, target, propertyKey, original),
      ),
      ...injectServiceInto(target, name),
    };
    answerErrorsOf(target);
    lockedMethods.add(target, propertyKey, method);
    (descriptor as PropertyDescriptor).value = wrapMethod(
      original,
      { locked: method },
      LockedInterceptor,
      (instance, given) => callLocked(method, instance, given),
    );
  };
}
