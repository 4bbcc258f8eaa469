import { AsyncResource } from 'node:async_hooks';

/** Returns the caller's context. It keeps nothing open, so `jest --detectOpenHandles` reports nothing. */
export function contextOfCaller(name: string): AsyncResource {
  const context = new AsyncResource(name);
  // This does not end the context. In Bun, the method returns nothing.
  context.emitDestroy();
  return context;
}

let outside: AsyncResource | undefined;

/**
 * Makes the caller's context the context of {@link runOutside}, unless there already is one. Called when a module is
 * configured and when an engine is made, which happens outside of calls that lock.
 */
export function keepOutside(): AsyncResource {
  return (outside ??= contextOfCaller('nestjs-redis-lock'));
}

/**
 * Runs `fn` outside of every hold, scope and `AsyncLocalStorage` of a caller. Returns what `fn` returns. For code that
 * serves several callers: a shared timer, a connection, the report of a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return keepOutside().runInAsyncScope(fn);
}
