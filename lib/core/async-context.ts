import { AsyncResource } from 'node:async_hooks';

let outside: AsyncResource | undefined;

/**
 * Makes the caller's context the one of {@link runOutside}, unless there is one. Called when a module is configured and
 * when an engine is made, which is outside of the calls that lock.
 */
export function keepOutside(): AsyncResource {
  // Destroyed at once, which does not end the context: nothing is open, and `jest --detectOpenHandles` reports nothing.
  return (outside ??= new AsyncResource('nestjs-redis-lock').emitDestroy());
}

/**
 * Runs `fn` outside of every hold, scope and `AsyncLocalStorage` of a caller. Returns what `fn` returns. For what
 * serves several callers: a shared timer, a connection, the report of a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return keepOutside().runInAsyncScope(fn);
}
