import { type LockedMethod, LockedCall, type Method } from './locked-call.js';

const LOCKED_METHOD = Symbol.for('nestjs-redis-lock:locked-method');

/** The mark that `@Locked` has put on a handler; undefined for any other function. */
export function lockedHandlerOf(handler: object): LockedMethod | undefined {
  return Reflect.getMetadata(LOCKED_METHOD, handler) as LockedMethod | undefined;
}

/**
 * Wraps a method. All metadata of the original is copied, so that it makes no difference whether route, schedule or
 * Swagger decorators stand above or below `@Locked`; name and number of parameters stay as they are.
 */
export function wrapMethod(method: LockedMethod): Method {
  const wrapped = new Proxy(method.original, {
    apply: (_original, instance: unknown, args: unknown[]) => runLocked(method, instance, args),
  });
  for (const key of Reflect.getMetadataKeys(method.original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, method.original), wrapped);
  }
  Reflect.defineMetadata(LOCKED_METHOD, method, wrapped);
  return wrapped;
}

/** Whoever calls a method that answers a promise expects a rejection, not a throw. */
function runLocked(method: LockedMethod, instance: unknown, args: unknown[]): unknown {
  if (method.returnsObservable) return new LockedCall(method, instance, args).run();
  try {
    return new LockedCall(method, instance, args).run();
  } catch (error) {
    return Promise.reject(error);
  }
}
