import { LockConfigError } from '../core/errors.js';
import { checkScopeOptions, type LockScope as RunningScope, type LockScopeOptions } from '../core/hold/lock-scope.js';
import { decoratedMethodOf, type ScopedMethod } from '../locked/locked-method.js';
import { wrapScoped } from '../locked/scoped-call.js';
import { serveHandler } from '../locked/serve-handler.js';
import { methodBelow } from './describe-method.js';
import { returnsObservable } from './locked.decorator.js';

/**
 * A running lock scope, which `runInLockScope()` and `LockService.scope()` give to their work. Its other name,
 * `RunningLockScope`, is for declarations that compilers emit.
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
 * @LockScope()
 * @Transactional()
 * async buy(id: number) { … } // calls methods with @Locked
 * ```
 *
 * On a handler of a controller, a gateway or a microservice, the scope begins before pipes. It ends when both the
 * response is complete and the method has settled. Interceptors run inside. If the method's declared return type is an
 * Observable, the scope ends with the Observable. The order of `@LockScope` and `@Locked` does not matter.
 *
 * The method returns a promise, unless its declared return type is an Observable.
 *
 * @throws {LockConfigError} at decoration, if an option is not allowed, or if the decorator is on an accessor, a
 * generator or a method with another `@LockScope`.
 * @throws {LockLostError} at the call, if a lock was lost before the scope ended, unless `onLost` is `ignore`.
 *
 * @publicApi
 */
export function LockScope(options: LockScopeOptions = {}): MethodDecorator {
  return (target, propertyKey, descriptor) => {
    const { where, original } = methodBelow('@LockScope', target, propertyKey, descriptor, 'keep locks for');
    if (decoratedMethodOf(original)?.scoped !== undefined)
      throw new LockConfigError(`${where}: there is a second @LockScope; one is enough.`);
    const { onLost } = checkScopeOptions(options, `@LockScope of ${where}`);
    const method: ScopedMethod = {
      name: where,
      onLost,
      returnsObservable: returnsObservable(target, propertyKey),
      original,
    };
    const wrapped = wrapScoped(method);
    serveHandler(wrapped, target, propertyKey, { scoped: method });
    (descriptor as PropertyDescriptor).value = wrapped;
  };
}
