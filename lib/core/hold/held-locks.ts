import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import type { Hold, Lock } from './lock.js';

/** What can be around a caller: a hold that it runs in, or a scope, which gets its hold later. */
export interface Surrounding {
  readonly lock: Hold | undefined;
}

interface Frame {
  readonly inner: Surrounding;
  readonly outer: Frame | undefined;
}

/**
 * One storage for the process: holds of several module instances, and scopes, nest in each other in any order. A frame is
 * told apart by the lock or the scope in it, never by where it stands.
 */
const frames = new AsyncLocalStorage<Frame>();

const NONE: readonly Lock[] = [];

/** Runs `fn`, and all that it starts, inside a hold or a scope. */
export function runInside<T>(inner: Surrounding, fn: () => T): T {
  return frames.run({ inner, outer: frames.getStore() }, fn);
}

/** Made when the module is loaded, around no caller. */
const outside = new AsyncResource('nestjs-redis-lock');

/**
 * Runs `fn` outside of every hold, and of whatever else is kept for a caller. What serves many (a shared timer, a connection, the
 * news of a loss) must not run around the one who happened to start it: its listeners would join a lock that is not theirs.
 */
export function runOutside<T>(fn: () => T): T {
  return outside.runInAsyncScope(fn);
}

/** All that is around the caller, the innermost first. */
export function* surroundings(): Generator<Surrounding> {
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) yield frame.inner;
}

/**
 * The innermost hold around the caller that fits. A hold that has ended does not count: what outlives it is a stranger
 * to the lock and has to ask like everybody else.
 */
export function heldAround(fits: (lock: Lock) => boolean): Lock | undefined {
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
    for (const lock of frame.inner.lock?.locks ?? NONE) if (lock.held && fits(lock)) return lock;
  }
  return undefined;
}
