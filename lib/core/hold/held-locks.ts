import { AsyncLocalStorage } from 'node:async_hooks';
import { shared } from '../brand.js';
import type { LockLostError } from '../errors.js';
import type { LeaseManager } from '../lease/lease-manager.js';
import type { Hold, Lock } from './lock.js';

/** A hold that code runs inside, and the holds around it. */
interface Frame {
  readonly hold: Hold;
  readonly outer: Frame | undefined;
}

// One storage for the process, because holds of several module instances and scopes nest in any order.
const frames = shared('frames', () => new AsyncLocalStorage<Frame | undefined>());

/** Runs `fn`, and everything that it starts, inside a hold or a lock scope. Returns what `fn` returns. */
export function runInHold<T>(hold: Hold, fn: () => T): T {
  let outer = frames.getStore();
  // Work that starts its successor inside would otherwise add a frame each time.
  while (outer?.hold.isOver === true) outer = outer.outer;
  return frames.run({ hold, outer }, fn);
}

/** Runs `fn`, and everything that it starts, outside of all holds and lock scopes. Returns what `fn` returns. */
export function runOutsideHolds<T>(fn: () => T): T {
  return frames.run(undefined, fn);
}

/** Yields the holds and scopes that the caller runs inside, the innermost first. */
export function* holdsAround(): Generator<Hold> {
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) yield frame.hold;
}

/**
 * Returns the innermost hold of an engine that the caller runs inside, for that key or for any. Skips holds that have
 * ended, because work that outlives a hold acquires the lock like any other caller.
 */
export function heldAround(leases: LeaseManager, key?: string): Lock | undefined {
  // Every acquire runs this, so it makes no iterator and no closure.
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
    const found = frame.hold.find(leases, key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns why a lock of that key, which the caller still runs inside, was lost. Undefined if none was lost. */
export function lossAround(resource: string, key: string): LockLostError | undefined {
  for (const hold of holdsAround()) {
    const lost = hold.locks.find((lock) => lock.key === key && lock.loss !== undefined);
    // A lock scope no longer keeps a lost lock, but knows of its loss.
    const loss = lost?.loss ?? (hold.loss?.resource === resource ? hold.loss : undefined);
    if (loss !== undefined) return loss;
  }
  return undefined;
}
