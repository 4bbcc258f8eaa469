import { LockConfigError, type LockTimeoutError, type LockUnavailableError } from '../common/errors.js';
import { familyOfTemplate } from '../events/call.js';
import type { RenderResource } from '../keys/key-template.js';
import { isList, readList } from '../keys/read-list.js';
import { modeOf } from '../contract/lock-mode.js';
import type { LockOptions } from '../options/lock.options.js';
import { checkAt } from '../options/option-table.js';
import { DEFAULT_INSTANCE } from '../options/redis-lock.options.js';
import { checkHoldTimes, checkMode, checkOnce } from '../options/resolve-options.js';
import { injectServiceInto } from './bind.js';
import {
  decoratedMethodOf,
  functionOf,
  type LockedMethod,
  lockedMethods,
  type Method,
  wrapMethod,
} from './decorated-method.js';
import { isFieldResolver } from './graphql-error.js';
import { LockedInterceptor } from './interceptor.js';
import { answerErrorsOf } from './lock-exception.filter.js';
import { callLocked } from './locked-call.js';
import { methodBelow, refuseBare, refuseStatic, returnsObservable } from './method-below.js';
import type { LockedDecorator, OneMode, Replacement } from './method-types.js';
import { bindTemplate } from './parameters/bind-template.js';
import { currentLockIndexes } from './parameters/current-lock.js';

type ResourceOption = string | readonly string[] | Method;

/**
 * The options of {@link Locked}.
 *
 * @publicApi
 */
export interface LockedOptions<A extends readonly unknown[] = never[]> extends Omit<LockOptions, 'label' | 'onceMs'> {
  /**
   * Runs the method once in this many milliseconds, over all instances. Less than this after the grant of a run that
   * has ended without an error, the method is not called, and the call returns undefined, or an Observable of
   * undefined. See {@link OnceOptions.onceMs}.
   *
   * @minimum 1
   * @maximum 31536000000
   */
  readonly onceMs?: number | undefined;
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
   * Names the calls in events and traces. A function is called on the same instance with the arguments, and returns the
   * name of one call. Its errors are thrown.
   */
  readonly label?: string | ((...args: A) => string | undefined) | undefined;
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
  options?: LockedOptions<A> & O & OneMode<O>,
): LockedDecorator<A, Replacement<O>>;
export function Locked(...args: unknown[]): unknown {
  refuseBare('@Locked', args, `@Locked('goods:<id>')`);
  const [resource, options = {}] = args as [ResourceOption, LockedOptions?];
  return (target: object, propertyKey: string | symbol, descriptor?: PropertyDescriptor): void => {
    const { where, original } = methodBelow('@Locked', target, propertyKey, descriptor, 'hold a lock for');
    const place = `@Locked of ${where}`;
    refuseStatic('@Locked', where, target);
    // A wrapper between the two decorators may have no metadata, but the class has the registration.
    if (decoratedMethodOf(original)?.locked !== undefined || lockedMethods.of(target).has(propertyKey))
      throw new LockConfigError(`${where}: there is a second @Locked; nest two methods instead.`);
    const known = checkOnce(checkMode(checkAt('@Locked', options, place), place), place);
    if (known.onceMs !== undefined && isSeveral(resource))
      throw new LockConfigError(`${place}: onceMs is set for several resources; expected one.`);
    checkHoldTimes(known, place);
    const { name = DEFAULT_INSTANCE, onBusy = 'throw', onUnavailable = 'throw', label, mode, permits, ...rest } = known;
    const method: LockedMethod = {
      name: where,
      key: propertyKey,
      options: { ...rest, mode: modeOf({ mode, permits }) },
      onBusy,
      onUnavailable,
      label,
      family: typeof resource === 'string' ? familyOfTemplate(resource) : undefined,
      returnsObservable: returnsObservable(target, propertyKey),
      lockIndexes: currentLockIndexes(target, propertyKey),
      original,
      resourceOf: resourceFunction(where, resource, target, propertyKey, original),
      ...injectServiceInto(target, name),
    };
    const wrapped = wrapMethod(original, { locked: method }, LockedInterceptor, (instance, given) =>
      // Decorators above this one are known only at a call. One of them may have replaced the function.
      callLocked(method, instance, given, isFieldResolver(functionOf(target, propertyKey) ?? wrapped)),
    );
    answerErrorsOf(target);
    lockedMethods.add(target, propertyKey, method);
    (descriptor as PropertyDescriptor).value = wrapped;
  };
}

/** Whether templates name several resources. What a function returns is known at the call. */
function isSeveral(resource: ResourceOption): boolean {
  return isList(resource) || (typeof resource === 'string' && resource.includes('<...'));
}

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
