/** Completes "expected …". Classes differ between realms and polyfills, so signals are recognized by their shape. */
export const ABORT_SIGNAL_SHAPE =
  'an AbortSignal: an object with a boolean `aborted`, addEventListener() and removeEventListener()';

type OnAbort = (reason: unknown) => void;

/** A callback that waits for a signal. */
export interface AbortSubscription {
  /** Ends the wait. Takes constant time. */
  stop(): void;
}

const NONE: AbortSubscription = Object.freeze({ stop: () => undefined });

/** What waits for a signal. */
interface Waiting {
  readonly callbacks: Set<{ readonly callback: OnAbort }>;
  readonly listener: () => void;
}

// One listener for each signal, however many callers wait, because Node warns of a leak from 11 listeners on.
const listeners = new WeakMap<AbortSignal, Waiting>();

/** Returns whether a value has the shape of an AbortSignal. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  if (typeof value !== 'object' || value === null) return false;
  const { aborted, addEventListener, removeEventListener } = value as Partial<AbortSignal>;
  return (
    typeof aborted === 'boolean' && typeof addEventListener === 'function' && typeof removeEventListener === 'function'
  );
}

/** Throws the signal's reason if it has aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw reasonOf(signal);
}

/**
 * Calls `callback`, which must not throw, with the reason when the signal aborts. Does not call it for a signal that
 * has aborted before. The signal gets one listener for all callbacks, and none while there is no callback.
 */
export function onAbort(signal: AbortSignal | undefined, callback: OnAbort): AbortSubscription {
  if (signal === undefined) return NONE;
  const { callbacks, listener } = listeners.get(signal) ?? listenTo(signal);
  const own = { callback };
  callbacks.add(own);
  const stop = (): void => {
    if (!callbacks.delete(own) || callbacks.size > 0) return;
    listeners.delete(signal);
    signal.removeEventListener('abort', listener);
  };
  return { stop };
}

function listenTo(signal: AbortSignal): Waiting {
  const callbacks: Waiting['callbacks'] = new Set();
  const listener = (): void => {
    listeners.delete(signal);
    for (const { callback } of callbacks) callback(reasonOf(signal));
  };
  signal.addEventListener('abort', listener, { once: true });
  const waiting = { callbacks, listener };
  listeners.set(signal, waiting);
  return waiting;
}

/** A signal that follows others until its subscription is stopped. */
export interface FollowingSignal extends AbortSubscription {
  readonly signal: AbortSignal | undefined;
}

/** Returns a signal that aborts with the first of the two, or the only one that is given. */
// Not `AbortSignal.any`, which takes only signals from its own realm.
export function eitherOf(one: AbortSignal | undefined, other: AbortSignal | undefined): FollowingSignal {
  if (one === undefined || other === undefined) return { signal: one ?? other, ...NONE };
  const either = new AbortController();
  const abort: OnAbort = (reason) => either.abort(reason);
  const subscriptions = [one, other].map((signal) => {
    if (signal.aborted) abort(reasonOf(signal));
    return onAbort(signal, abort);
  });
  return { signal: either.signal, stop: () => subscriptions.forEach((each) => each.stop()) };
}

/** Returns why a signal has aborted. Polyfills may have no reason. */
function reasonOf(signal: AbortSignal): unknown {
  const { reason } = signal as { readonly reason?: unknown };
  return reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
}
