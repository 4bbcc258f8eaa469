import { defer, isObservable, Observable } from 'rxjs';
import { runInLockScope, ScopeHold } from '../core/hold/lock-scope.js';
import { type HandlerScope, scopeOf } from './handler-scope.js';
import { type Method, replaceMethod, type ScopedMethod } from './locked-method.js';
import { streamUnder, toObservable, undeclaredObservable } from './stream-under.js';

/** Returns a function that runs the method in a lock scope. See {@link replaceMethod}. */
export function wrapScoped(method: ScopedMethod): Method {
  return replaceMethod(method.original, (instance, args) => {
    const call = (): unknown => Reflect.apply(method.original, instance, args);
    const handler = scopeOf(method);
    return handler === undefined ? callInScope(method, call) : callHandler(method, handler, call);
  });
}

function callInScope({ name, onLost, returnsObservable }: ScopedMethod, call: () => unknown): unknown {
  if (returnsObservable) return observeInScope(onLost, call);
  return runInLockScope({ onLost }, async () => {
    const result = await call();
    // The scope ends with the method, so the Observable would run without it.
    if (isObservable(result)) throw undeclaredObservable(name, '@LockScope can keep the locks');
    return result;
  });
}

/** Calls a handler. The interceptor has opened its lock scope, and ends it after the response. */
function callHandler(method: ScopedMethod, handler: HandlerScope, call: () => unknown): unknown {
  if (!method.returnsObservable) {
    const work = async (): Promise<unknown> => call();
    // The wrapper of `@Locked`, at any depth below this one, adds the call with its lock.
    return handler.hasLockedMethod ? work() : handler.callMethod(work);
  }
  return new Observable((subscriber) => {
    let result: unknown;
    const source = defer(() => toObservable((result = call())));
    const subscribe = async (): Promise<void> => {
      if (!subscriber.closed) handler.enter(() => source.subscribe(subscriber));
      await result;
    };
    const subscribed = handler.hasLockedMethod ? subscribe() : handler.callMethod(subscribe);
    // An error of the method goes to the subscriber.
    subscribed.catch(() => undefined);
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
