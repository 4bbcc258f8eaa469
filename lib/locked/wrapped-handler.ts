import { EXCEPTION_FILTERS_METADATA, INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { LockExceptionFilter } from './lock-exception.filter.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { type LockedMethod, lockedMethodOf, markLocked } from './locked-method.js';

/** Gives a handler's function what Nest and the interceptor look for. The function is that of `@Locked` or above it. */
export function serveHandler(handler: object, method: LockedMethod): void {
  markLocked(handler, method);
  // Outside of the interceptors below `@Locked`, and after the filters there, which are more specific.
  prepend(INTERCEPTORS_METADATA, LockedInterceptor, handler);
  prepend(EXCEPTION_FILTERS_METADATA, LockExceptionFilter, handler);
}

/**
 * Serves a handler whose function another decorator has replaced without its metadata. Without them, the lock would end
 * with the method and not with the response.
 */
export function serveWrappedHandler(prototype: object, propertyKey: string | symbol, method: LockedMethod): void {
  const handler = functionOf(prototype, propertyKey);
  if (handler !== undefined && lockedMethodOf(handler) === undefined) serveHandler(handler, method);
}

/** Returns the function of a prototype's own method, `undefined` for an accessor. Calls no getter. */
export function functionOf(prototype: object, propertyKey: string | symbol): object | undefined {
  const value: unknown = Object.getOwnPropertyDescriptor(prototype, propertyKey)?.value;
  return typeof value === 'function' ? value : undefined;
}

function prepend(key: string, value: unknown, handler: object): void {
  const existing = (Reflect.getMetadata(key, handler) ?? []) as unknown[];
  Reflect.defineMetadata(key, [value, ...existing], handler);
}
