import { isObservable } from 'rxjs';
import { LockConfigError } from '../common/errors.js';
import {
  checkScopeOptions,
  type LockScope as RunningScope,
  type LockScopeOptions,
  runInLockScope,
} from '../engine/lock-scope.js';
import { decoratedMethodOf, type ScopedMethod, wrapMethod } from './decorated-method.js';
import { HandlerScope } from './handler-scope.js';
import { LockedInterceptor } from './interceptor.js';
import { answerErrorsOf } from './lock-exception.filter.js';
import { methodBelow, refuseBare, returnsObservable } from './method-below.js';

/**
 * A running lock scope, which `runInLockScope()` and `LockService.scope()` give to their work.
 *
 * @publicApi
 */
export type LockScope = RunningScope;

/**
 * Runs the method in a lock scope: every lock that is acquired inside, even in other services, is kept and renewed
 * until the method has settled. The locks are then released, even if the method fails. Put it above a decorator that
 * wraps the method in a transaction, so that the locks outlive the commit. See {@link runInLockScope}.
 *
 * ```ts
 * class Shop { @LockScope() @Transactional() async buy(id: number) { … } } // calls methods with a lock
 * ```
 *
 * On a handler of a controller, a gateway or a microservice, the scope begins before pipes. It ends when both the
 * response is complete and the method has settled. Interceptors run inside. If the handler returns an Observable, the
 * scope ends with the Observable. The order of `@LockScope` and `@Locked` does not matter.
 *
 * Any other method returns a promise.
 *
 * @throws {LockConfigError} at decoration, if an option is not allowed, or if the decorator has no parentheses, or is
 * on a static method, an accessor, a generator or a method with another `@LockScope`.
 * @throws {LockLostError} at the call, if a lock was lost before the scope ended, unless `onLost` is `ignore`.
 * @throws {LockConfigError} at the call, if a method that is not a handler returns an Observable.
 *
 * @publicApi
 */
export function LockScope(options?: LockScopeOptions): MethodDecorator;
export function LockScope(...args: [options?: LockScopeOptions]): MethodDecorator {
  refuseBare('@LockScope', args, '@LockScope()');
  const [options = {}] = args;
  return (target, propertyKey, descriptor) => {
    const { where, original } = methodBelow('@LockScope', target, propertyKey, descriptor, 'keep locks for');
    if (decoratedMethodOf(original)?.scoped !== undefined)
      throw new LockConfigError(`${where}: there is a second @LockScope; one is enough.`);
    const { onLost } = checkScopeOptions(options, `@LockScope of ${where}`);
    const method: ScopedMethod = {
      name: where,
      key: propertyKey,
      onLost,
      returnsObservable: returnsObservable(target, propertyKey),
      original,
    };
    const wrapped = wrapMethod(original, { scoped: method }, LockedInterceptor, (instance, given) =>
      callInScope(method, () => Reflect.apply(original, instance, given)),
    );
    answerErrorsOf(target);
    (descriptor as PropertyDescriptor).value = wrapped;
  };
}

function callInScope(method: ScopedMethod, call: () => unknown): unknown {
  const { name, onLost, returnsObservable: isStream } = method;
  const handler = HandlerScope.of(method);
  // The interceptor has opened the scope of a handler, and ends it after the response.
  if (handler !== undefined) {
    if (isStream) return handler.enter(call);
    const work = async (): Promise<unknown> => call();
    // The wrapper of `@Locked`, below this one, adds the call of the method.
    return handler.hasLockedMethod ? handler.callAround(work) : handler.call(work);
  }
  if (isStream) throw unkept(name);
  return runInLockScope({ onLost }, async () => {
    const result = await call();
    if (isObservable(result)) throw unkept(name);
    return result;
  });
}

/** Returns the error for a method whose Observable would run after the scope. */
function unkept(method: string): LockConfigError {
  return new LockConfigError(
    `${method} returns an Observable, and @LockScope keeps locks until a method has settled. ` +
      'Return a promise, such as that of lastValueFrom().',
  );
}
