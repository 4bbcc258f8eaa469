import { EXCEPTION_FILTERS_METADATA, INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { scopeOf } from './handler-scope.js';
import { UnseenLockExceptionFilter } from './lock-exception.filter.js';
import { LockedInterceptor } from './locked.interceptor.js';
import {
  copyMethod,
  type DecoratedMethod,
  functionOf,
  isOwnWrapper,
  markDecorated,
  type Method,
} from './locked-method.js';

/**
 * Gives a handler's function the metadata that Nest and the interceptor look for. Later does the same for the function
 * of a decorator above, which may have replaced the handler without its metadata. Otherwise, the lock would end with
 * the method and not with the response. The function of a decorator above also becomes part of the handler's work.
 */
export function serveHandler(
  handler: object,
  prototype: object,
  propertyKey: string | symbol,
  decorated: DecoratedMethod,
): void {
  serve(handler, decorated);
  // After all filters of the class and its handlers.
  prepend(EXCEPTION_FILTERS_METADATA, UnseenLockExceptionFilter, prototype.constructor);
  // Runs after the decorators above, and before Nest reads the metadata.
  queueMicrotask(() => {
    const outermost = functionOf(prototype, propertyKey);
    if (outermost === undefined || outermost === handler) return;
    serve(outermost, decorated);
    trackWrapper(outermost as Method, prototype, propertyKey, decorated);
  });
}

/** The functions that {@link trackWrapper} has made. */
const trackers = new WeakSet<object>();

/**
 * Lets the scope of a request wait for the function of another decorator, which may commit after the method. After a
 * timeout, the lock would otherwise end with the method.
 */
function trackWrapper(
  outermost: Method,
  prototype: object,
  propertyKey: string | symbol,
  { locked, scoped }: DecoratedMethod,
): void {
  const method = locked ?? scoped;
  // Our own wrappers do so themselves.
  if (method === undefined || isOwnWrapper(outermost) || trackers.has(outermost)) return;
  const tracker = copyMethod(outermost, (instance, args) => {
    const call = (): unknown => Reflect.apply(outermost, instance, args);
    const scope = scopeOf(method);
    return scope === undefined ? call() : scope.callWrapper(async () => call());
  });
  trackers.add(tracker);
  // Does nothing to a property that cannot be changed.
  Reflect.defineProperty(prototype, propertyKey, { value: tracker });
}

function serve(handler: object, decorated: DecoratedMethod): void {
  markDecorated(handler, decorated);
  // Outside the interceptors below our decorator.
  prepend(INTERCEPTORS_METADATA, LockedInterceptor, handler);
}

function prepend(key: string, value: unknown, handler: object): void {
  const existing = (Reflect.getMetadata(key, handler) ?? []) as unknown[];
  if (!existing.includes(value)) Reflect.defineMetadata(key, [value, ...existing], handler);
}
