import { EXCEPTION_FILTERS_METADATA, INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { UnseenLockExceptionFilter } from './lock-exception.filter.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { type DecoratedMethod, functionOf, markDecorated } from './locked-method.js';

/**
 * Gives a handler's function the metadata that Nest and the interceptor look for. Later gives it to the function of a
 * decorator above as well, which may have replaced the handler without its metadata. Otherwise, the lock would end with
 * the method and not with the response.
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
    if (outermost !== undefined && outermost !== handler) serve(outermost, decorated);
  });
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
