import { finished, type Readable } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { sharedClass } from '../core/context/copies.js';
import { runInside, type Surrounding, surroundings } from '../core/hold/held-locks.js';
import type { Hold } from '../core/hold/lock.js';
import { ScopeHold } from '../core/hold/lock-scope.js';
import { type LockedMethod, lockedMethodOf, type ScopedMethod, scopedMethodOf } from './locked-method.js';
import { CallQueue } from './call-queue.js';

/** Ends a hold after its work, which failed with `workError` if that is given. */
export type EndHold = (lock: Hold, workError?: unknown) => Promise<void>;

/** A handler with `@Locked`, `@LockScope` or both. */
export interface HandlerMethod {
  readonly locked: LockedMethod | undefined;
  readonly scoped: ScopedMethod | undefined;
}

/** Returns what our decorators know of a handler, `undefined` for a function without them. */
export function handlerMethodOf(handler: object): HandlerMethod | undefined {
  const [locked, scoped] = [lockedMethodOf(handler), scopedMethodOf(handler)];
  return locked === undefined && scoped === undefined ? undefined : { locked, scoped };
}

/**
 * One request to a handler with `@Locked` or `@LockScope`, from the first interceptor to the last. The interceptor
 * opens and ends the scope. The method's wrapper acquires the lock with the final arguments and leaves it to the scope.
 * The lock therefore covers what other interceptors do after the method. With `@LockScope`, this scope also opens and
 * ends a lock scope.
 */
@sharedClass('HandlerScope')
export class HandlerScope implements Surrounding {
  lock: Hold | undefined;
  /** True while the Observable of the call has no subscriber: an interceptor may subscribe again. */
  unsubscribed = false;
  /** Called when a call has its lock, and a method without an Observable has returned. */
  onReady: (() => void) | undefined;
  private readonly lockScope: ScopeHold | undefined;
  private readonly aborter = new AbortController();
  private readonly calls = new Set<HandlerCall>();
  private readonly queue = new CallQueue();
  private sending: Promise<void> | undefined;
  private endHold: EndHold | undefined;
  private ended = false;

  constructor(
    private readonly method: HandlerMethod,
    readonly context: ExecutionContext,
  ) {
    const { scoped } = method;
    if (scoped !== undefined) this.lockScope = new ScopeHold(scoped.onLost);
  }

  /** Returns whether this is a request to that method. */
  isOf(method: LockedMethod | ScopedMethod): boolean {
    return method === this.method.locked || method === this.method.scoped;
  }

  /** Whether the end of the scope may release locks: the handler's own, or those that its lock scope keeps. */
  get hasLocks(): boolean {
    if (this.lock !== undefined || this.method.locked === undefined) return true;
    return this.lockScope !== undefined && (this.lockScope.loss !== undefined || this.lockScope.locks.length > 0);
  }

  /** Whether `@Locked` stands above or below `@LockScope`, also with other decorators between them. */
  get hasLockedMethod(): boolean {
    return this.method.locked !== undefined;
  }

  /** Runs `fn`, and everything that it starts, in the scope. Returns what `fn` returns. */
  enter<T>(fn: () => T): T {
    return runInside(this, () => (this.lockScope === undefined ? fn() : this.lockScope.run(fn)));
  }

  /** Aborts when the caller no longer waits for the request. */
  get signal(): AbortSignal {
    return this.aborter.signal;
  }

  /** True if a call of the handler belongs to this scope. A call after an abort does, so that it fails, too. */
  get open(): boolean {
    return !this.ended || this.signal.aborted;
  }

  /** True while the method or a wrapper above it runs, or waits for its lock. */
  get working(): boolean {
    return this.queue.busy;
  }

  /** True while a file that the handler returned is being sent. */
  get streaming(): boolean {
    return this.sending !== undefined;
  }

  /**
   * Runs one call of the handler, after the calls before it. An interceptor may retry the handler while the first call
   * is still running, and the lock of the scope does not keep the two apart. A call by a wrapper that runs waits for
   * the earlier calls of that wrapper only.
   */
  run<T>(work: (call: HandlerCall) => Promise<T>): Promise<T> {
    const call = new HandlerCall(this);
    this.calls.add(call);
    return this.take(call, () => work(call), {
      onSettled: () => void this.calls.delete(call),
      onFulfilled: () => this.onReady?.(),
    });
  }

  /**
   * Runs a function that calls the handler, such as the one of a decorator between the response and `@Locked`. The
   * locks of the scope are held until it has settled. It counts as running until the calls that it has made are over.
   */
  runWrapper<T>(work: () => Promise<T>): Promise<T> {
    const wrapper = new WrapperCall(this);
    return this.take(wrapper, work, {
      onSettled: () => wrapper.end(),
      onFulfilled: (result) => {
        // The Observable has the lock after somebody has subscribed to it.
        if (this.lock !== undefined || !isObservable(result) || !this.returnsObservable) this.onReady?.();
      },
    });
  }

  private take<T>(around: Surrounding, work: () => Promise<T>, then: AfterCall<T>): Promise<T> {
    const wrapper = wrapperAround(this);
    const queue = wrapper?.queue ?? this.queue;
    // The response is ready when the outermost function has returned.
    const onFulfilled = wrapper === undefined ? then.onFulfilled : (): void => undefined;
    return queue.run(() => runInside(around, work), then.onSettled, onFulfilled);
  }

  private get returnsObservable(): boolean {
    return (this.method.locked ?? this.method.scoped)?.returnsObservable === true;
  }

  /** Holds the lock until the end of the scope. Returns false if the scope holds one already. */
  tryHold(lock: Hold, endHold: EndHold): boolean {
    if (this.signal.aborted) lock.abort(this.signal.reason);
    if (this.lock !== undefined) return false;
    this.lock = lock;
    this.endHold = endHold;
    return true;
  }

  /** Makes the scope wait for a file that the handler returned: it is sent after the handler has completed. */
  trackStream(value: unknown): void {
    const body = bodyOf(value);
    if (body === undefined) return;
    const sending = sent(body).finally(() => {
      if (this.sending === sending) this.sending = undefined;
    });
    this.sending = sending;
  }

  onSubscribe(): void {
    this.unsubscribed = false;
  }

  onUnsubscribe(): void {
    this.unsubscribed = true;
    // Before the end an interceptor may still subscribe again.
    if (this.ended) this.abort();
  }

  /** Aborts the signals of all holds. The lock stays held until the method and the file have ended. */
  abort(): void {
    const reason = new DOMException('Nobody waits for this call any more.', 'AbortError');
    this.aborter.abort(reason);
    this.lock?.abort(reason);
    this.lockScope?.abort(reason);
    for (const { lock } of this.calls) lock?.abort(reason);
  }

  /** Ends the hold after the method and the file have ended. */
  async end(workError?: unknown): Promise<void> {
    this.ended = true;
    await this.queue.idle();
    await this.sending;
    try {
      if (this.lock !== undefined) await this.endHold?.(this.lock, workError);
    } finally {
      await this.lockScope?.end(workError);
    }
  }
}

/** One call of a scope's handler. */
@sharedClass('HandlerCall')
export class HandlerCall implements Surrounding {
  lock: Hold | undefined;

  constructor(readonly scope: HandlerScope) {}
}

interface AfterCall<T> {
  readonly onSettled: () => void | Promise<void>;
  readonly onFulfilled: (result: T) => void;
}

/** One call of a function that calls the handler: of a wrapper above `@Locked`. */
@sharedClass('WrapperCall')
class WrapperCall implements Surrounding {
  readonly lock = undefined;
  /** The calls that it makes. They cannot wait in the scope's queue, which waits for this. */
  readonly queue = new CallQueue();
  open = true;

  constructor(readonly scope: HandlerScope) {}

  /** Ends after the calls that it has made, at once without such calls. */
  end(): void | Promise<void> {
    if (this.queue.busy) return this.queue.idle().then(() => this.end());
    this.open = false;
  }
}

/** Returns the innermost wrapper of the scope's handler that the caller runs inside, and that still runs. */
function wrapperAround(scope: HandlerScope): WrapperCall | undefined {
  for (const around of surroundings()) {
    if (around instanceof WrapperCall && around.scope === scope && around.open) return around;
    if (around === scope) return undefined;
  }
  return undefined;
}

/** Returns the open scope that a handler is called in, `undefined` for a call that the handler makes of itself. */
export function scopeOf(method: LockedMethod | ScopedMethod): HandlerScope | undefined {
  const inside = new Set<HandlerScope>();
  for (const around of surroundings()) {
    if (around instanceof HandlerCall) inside.add(around.scope);
    else if (around instanceof HandlerScope && around.isOf(method) && !inside.has(around)) {
      // The end of a scope waits for its wrappers.
      return around.open || wrapperAround(around) !== undefined ? around : undefined;
    }
  }
  return undefined;
}

/** Returns the stream of a `StreamableFile`. */
function bodyOf(value: unknown): Readable | undefined {
  // Recognized by its shape, because the class may come from another copy of Nest.
  const file = value as { getStream?: () => unknown; setErrorHandler?: unknown } | null | undefined;
  if (typeof file?.getStream !== 'function' || typeof file.setErrorHandler !== 'function') return undefined;
  const body = file.getStream() as Partial<Readable> | undefined;
  return typeof body?.pipe === 'function' && typeof body.on === 'function' ? (body as Readable) : undefined;
}

/** Resolves when the stream has been read to its end, has failed or is closed. */
function sent(body: Readable): Promise<void> {
  // Streams of old libraries do not close themselves, so the end of reading counts as well.
  return new Promise((resolve) => void finished(body, { writable: false }, () => resolve()));
}
