import { LockConfigError, messageOf } from './errors.js';

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

// One listener for each signal, however many callers wait, because Node warns of a leak from 11 listeners on.
const listeners = new WeakMap<AbortSignal, SignalListener>();

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
 * Calls `callback` with the reason when the signal aborts. Does not call it for a signal that has aborted before. The
 * signal gets one listener for all callbacks, and none while there is no callback.
 *
 * @throws LockConfigError if the signal refuses its listener.
 */
export function onAbort(signal: AbortSignal | undefined, callback: OnAbort): AbortSubscription {
  if (signal === undefined) return NONE;
  return (listeners.get(signal) ?? listenTo(signal)).add(callback);
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
  const subscriptions: AbortSubscription[] = [];
  const stop = (): void => subscriptions.forEach((each) => each.stop());
  try {
    for (const signal of [one, other]) {
      if (signal.aborted) abort(reasonOf(signal));
      subscriptions.push(onAbort(signal, abort));
    }
  } catch (error) {
    stop();
    throw error;
  }
  return { signal: either.signal, stop };
}

function listenTo(signal: AbortSignal): SignalListener {
  const listener = new SignalListener(signal);
  try {
    signal.addEventListener('abort', listener.onAborted, { once: true });
  } catch (cause) {
    throw new LockConfigError(
      `signal: its addEventListener() failed (${messageOf(cause)}); expected ${ABORT_SIGNAL_SHAPE}.`,
      { cause },
    );
  }
  listeners.set(signal, listener);
  return listener;
}

/** The only listener of a signal. */
class SignalListener {
  readonly onAborted = (): void => this.callAll();
  private readonly callbacks = new Set<SignalCallback>();

  constructor(private readonly signal: AbortSignal) {}

  add(callback: OnAbort): AbortSubscription {
    const added = new SignalCallback(this, callback);
    this.callbacks.add(added);
    return added;
  }

  remove(callback: SignalCallback): void {
    if (this.callbacks.delete(callback) && this.callbacks.size === 0) this.end();
  }

  /** Calls all callbacks, even if one throws. Throws the first error. */
  private callAll(): void {
    const due = [...this.callbacks];
    this.callbacks.clear();
    this.end();
    const reason = reasonOf(this.signal);
    let failure: { readonly error: unknown } | undefined;
    for (const { callback } of due) {
      try {
        callback(reason);
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure !== undefined) throw failure.error;
  }

  private end(): void {
    if (listeners.get(this.signal) === this) listeners.delete(this.signal);
    try {
      this.signal.removeEventListener('abort', this.onAborted);
    } catch {
      // The callbacks are gone, so the listener no longer has an effect.
    }
  }
}

class SignalCallback implements AbortSubscription {
  constructor(
    private readonly listener: SignalListener,
    readonly callback: OnAbort,
  ) {}

  stop(): void {
    this.listener.remove(this);
  }
}

/** Returns why a signal has aborted. Polyfills may have no reason. */
function reasonOf(signal: AbortSignal): unknown {
  const { reason } = signal as { readonly reason?: unknown };
  return reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
}
