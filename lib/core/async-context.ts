import { AsyncResource } from 'node:async_hooks';

// Created when this module is loaded, outside of every caller's context.
const outside = new AsyncResource('nestjs-redis-lock');

/**
 * Runs `fn` outside of every hold, scope and `AsyncLocalStorage` of the application. Returns what `fn` returns. For
 * what serves several callers: a shared timer, a connection, the report of a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return outside.runInAsyncScope(fn);
}
