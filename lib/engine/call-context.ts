import { AsyncLocalStorage } from 'node:async_hooks';
import { shared } from '../common/brand.js';
import { type LockLostError, LockNotHeldError } from '../common/errors.js';
import type { Target } from '../events/call.js';
import type { Hold } from './hold.js';
import type { Lock } from './lock.js';
import type { Parts } from './lock-engine.js';

/** A hold that code runs inside, and the holds around it. */
interface Frame {
  readonly hold: Hold;
  outer: Frame | undefined;
}

/** What code runs inside. */
interface Surroundings {
  /** The innermost hold. */
  readonly frame?: Frame | undefined;
  /** The innermost lock scope that keeps what is acquired inside. */
  readonly scope?: Hold | undefined;
  /** What calls the code, if it is called for a request. Only the Nest layer knows what it is. */
  readonly caller?: unknown;
}

const NOTHING: Surroundings = {};

// One storage for the process, because holds of several module instances and scopes nest in any order.
const surroundings = shared('surroundings', () => new AsyncLocalStorage<Surroundings>());

function around(): Surroundings {
  return surroundings.getStore() ?? NOTHING;
}

/**
 * Runs `fn`, and everything that it starts, inside a hold. Returns what `fn` returns.
 *
 * @param scope the hold itself, if it is a lock scope that keeps what is acquired inside.
 */
export function runInHold<T>(hold: Hold, fn: () => T, scope?: Hold): T {
  const outside = around();
  const outer = withoutEnded(outside.frame);
  const inside = { frame: { hold, outer }, scope: scope ?? outside.scope, caller: outside.caller };
  return surroundings.run(inside, fn);
}

/**
 * Removes the holds that have ended, and returns the innermost of the others. Work that starts its successor inside
 * would otherwise add a frame each time. A lost hold stays, because code that still runs inside asks why it was lost.
 */
function withoutEnded(innermost: Frame | undefined): Frame | undefined {
  const first = nextAlive(innermost);
  for (let frame = first; frame !== undefined; frame = frame.outer) frame.outer = nextAlive(frame.outer);
  return first;
}

function nextAlive(frame: Frame | undefined): Frame | undefined {
  let next = frame;
  while (next?.hold.isOver === true && next.hold.loss === undefined) next = next.outer;
  return next;
}

/** Runs `fn`, and everything that it starts, for another caller. Returns what `fn` returns. */
export function runForCaller<T>(caller: unknown, fn: () => T): T {
  const { frame, scope } = around();
  return surroundings.run({ frame, scope, caller }, fn);
}

/** Runs `fn`, and everything that it starts, outside of all holds and callers. Returns what `fn` returns. */
export function runOutsideHolds<T>(fn: () => T): T {
  return surroundings.run(NOTHING, fn);
}

/** Returns what {@link runForCaller} was given for the code that runs. */
export function callerAround(): unknown {
  return around().caller;
}

/** Returns the innermost hold around the caller that was given as a scope to {@link runInHold}. */
export function innermostScope(): Hold | undefined {
  return around().scope;
}

/** Yields the holds and scopes that the caller runs inside, the innermost first. */
export function* holdsAround(): Generator<Hold> {
  for (let { frame } = around(); frame !== undefined; frame = frame.outer) yield frame.hold;
}

/**
 * Returns the innermost hold of an engine that the caller runs inside, for that key or for any. Skips holds that have
 * ended, because work that outlives a hold acquires the lock like any other caller.
 */
export function heldAround(parts: Parts, key?: string): Lock | undefined {
  // Every acquire runs this, so it makes no iterator and no closure.
  for (let { frame } = around(); frame !== undefined; frame = frame.outer) {
    const found = frame.hold.find(parts, key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns why a lock of that key, which the caller still runs inside, was lost. Undefined if none was lost. */
function lossAround(resource: string, key: string): LockLostError | undefined {
  for (const hold of holdsAround()) {
    const lost = hold.locks.find((lock) => lock.key === key && lock.loss !== undefined);
    // A lock scope no longer keeps a lost lock, but knows of its loss.
    const loss = lost?.loss ?? (hold.loss?.resource === resource ? hold.loss : undefined);
    if (loss !== undefined) return loss;
  }
  return undefined;
}

/**
 * Returns the hold of a lock that the caller runs in.
 *
 * @param mode what the caller needs. An exclusive hold is enough for `shared`.
 * @throws LockNotHeldError if the caller does not run in a hold of the lock, or only shares it and needs it alone.
 * @throws LockLostError if the hold was lost.
 */
export function assertHeldAround(parts: Parts, { resource, key }: Target, mode: 'exclusive' | 'shared'): Lock {
  const lock = heldAround(parts, key);
  if (lock === undefined) throw lossAround(resource, key) ?? notHeld(resource);
  lock.assertHeld();
  if (mode === 'shared' || lock.mode === 'exclusive') return lock;
  throw new LockNotHeldError(
    `${resource} is held with others, and this code needs it exclusively; use an exclusive hold, or mode: 'shared'.`,
    { resource },
  );
}

function notHeld(resource: string): LockNotHeldError {
  return new LockNotHeldError(
    `${resource} is not held here; call this inside using(), a @Locked method or a lock scope that has it. ` +
      'A lock from acquire() has an assertHeld() of its own.',
    { resource },
  );
}
