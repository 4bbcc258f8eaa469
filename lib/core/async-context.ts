import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import type { Hold } from './hold/lock.js';

/** What code runs inside: a hold, or a handler's scope, whose hold is set once the lock is granted. */
export interface Surrounding {
  readonly lock: Hold | undefined;
}

interface Frame {
  readonly inner: Surrounding;
  readonly outer: Frame | undefined;
}

// One storage for the process, because holds of several module instances and scopes nest in any order.
const frames = new AsyncLocalStorage<Frame>();

// Created when this module is loaded, outside of every caller's context.
const outside = new AsyncResource('nestjs-redis-lock');

/** Runs `fn`, and everything that it starts, inside a hold or a scope. Returns what `fn` returns. */
export function runInside<T>(inner: Surrounding, fn: () => T): T {
  return frames.run({ inner, outer: frames.getStore() }, fn);
}

/**
 * Runs `fn` outside of every hold, scope and `AsyncLocalStorage` of the application. Returns what `fn` returns. For
 * what serves several callers: a shared timer, a connection, the report of a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return outside.runInAsyncScope(fn);
}

/** Yields everything that the caller runs inside, the innermost first. */
export function* surroundings(): Generator<Surrounding> {
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) yield frame.inner;
}
