import { defer, isObservable, Observable } from 'rxjs';
import { LockConfigError } from '../common/errors.js';
import {
  checkScopeOptions,
  type LockScope as RunningScope,
  type LockScopeOptions,
  runInLockScope,
  ScopeHold,
} from '../engine/lock-scope.js';
import { decoratedMethodOf, type ScopedMethod, wrapMethod } from './decorated-method.js';
import { HandlerScope } from './handler-scope.js';
import { LockedInterceptor } from './interceptor.js';
import { answerErrorsOf } from './lock-exception.filter.js';
import { methodBelow, refuseBare, returnsObservable } from './method-below.js';
import { streamUnder, toObservable, undeclaredObservable } from './stream-under.js';

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
 * response is complete and the method has settled. Interceptors run inside. If the method's declared return type is an
 * Observable, the scope ends with the Observable. The order of `@LockScope` and `@Locked` does not matter.
 *
 * The method returns a promise, unless its declared return type is an Observable.
 *
 * @throws {LockConfigError} at decoration, if an option is not allowed, or if the decorator has no parentheses, or is
 * on a static method, an accessor, a generator or a method with another `@LockScope`.
 * @throws {LockLostError} at the call, if a lock was lost before the scope ended, unless `onLost` is `ignore`.
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
  if (isStream) return observeInScope(onLost, call);
  return runInLockScope({ onLost }, async () => {
    const result = await call();
    // The scope ends with the method, so the Observable would run without it.
    if (isObservable(result)) throw undeclaredObservable(name, '@LockScope can keep the locks');
    return result;
  });
}

function observeInScope(onLost: ScopedMethod['onLost'], call: () => unknown): Observable<unknown> {
  return new Observable((subscriber) => {
    const scope = new ScopeHold(onLost);
    streamUnder(subscriber, {
      abort: (reason) => scope.abort(reason),
      subscribe: (observer) => scope.run(() => defer(() => toObservable(call())).subscribe(observer)),
      end: (workError) => scope.end(workError),
    });
  });
}
