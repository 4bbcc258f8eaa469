import { AsyncLocalStorage } from 'node:async_hooks';
import { finished, type Readable } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { shared } from '../core/context/copies.js';
import { runInHold } from '../core/hold/held-locks.js';
import type { Lock } from '../core/hold/lock.js';
import { type KeptUse, ScopeHold } from '../core/hold/lock-scope.js';
import type { MultiLock } from '../core/hold/multi-lock.js';
import { CallQueue } from './call-queue.js';
import { type LockedMethod, lockedMethodOf, type ScopedMethod, scopedMethodOf } from './locked-method.js';

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

/** What calls a handler: the interceptors of a request, or one call of a function around the method. */
interface Caller {
  readonly scope: HandlerScope;
  readonly calls: CallQueue;
}

// What runs inside the method has none, because the method's calls of itself are calls like any other.
const callers = shared('handler-callers', () => new AsyncLocalStorage<Caller | undefined>());

/** Runs what a handler's method does. */
export function insideMethod<T>(fn: () => T): T {
  return callers.run(undefined, fn);
}

/** Returns the scope of the request that a handler is called for, `undefined` after its response. */
export function scopeOf(method: LockedMethod | ScopedMethod): HandlerScope | undefined {
  const caller = callers.getStore();
  return caller?.calls.isOpen === true && caller.scope.isOf(method) ? caller.scope : undefined;
}

/** Returns the scope that an outer interceptor has opened for a request. */
export function scopeOfContext(context: ExecutionContext): HandlerScope | undefined {
  const scope = callers.getStore()?.scope;
  return scope?.context === context ? scope : undefined;
}

/**
 * One request to a handler with `@Locked` or `@LockScope`, from the first interceptor to the last. It is a lock scope:
 * with `@LockScope` it keeps all locks that are acquired inside, otherwise only those that the method was given. The
 * interceptor opens and ends it. So the locks cover what other interceptors do after the method.
 */
export class HandlerScope {
  /** True while the Observable of the call has no subscriber: an interceptor may subscribe again. */
  unsubscribed = false;
  /** Called when a call has its lock, and a method without an Observable has returned. */
  onReady: (() => void) | undefined;
  private readonly locks: ScopeHold;
  private readonly uses: (Lock | MultiLock)[] = [];
  private readonly aborter = new AbortController();
  private readonly calls = new CallQueue();
  private sending: Promise<void> | undefined;
  private ended = false;

  constructor(
    private readonly method: HandlerMethod,
    readonly context: ExecutionContext,
  ) {
    this.locks = new ScopeHold(method.scoped?.onLost);
  }

  /** Returns whether this is a request to that method. */
  isOf(method: LockedMethod | ScopedMethod): boolean {
    return method === this.method.locked || method === this.method.scoped;
  }

  /** Whether the end of the scope may release locks. */
  get hasLocks(): boolean {
    if (this.method.locked === undefined) return true;
    return this.locks.loss !== undefined || this.locks.locks.length > 0;
  }

  /** Whether `@Locked` stands above or below `@LockScope`, also with other decorators between them. */
  get hasLockedMethod(): boolean {
    return this.method.locked !== undefined;
  }

  /** Runs the interceptors and what they call. Returns what `fn` returns. */
  run<T>(fn: () => T): T {
    return callers.run({ scope: this, calls: this.calls }, () => this.enter(fn));
  }

  /** Runs `fn`, and everything that it starts, under the locks of the scope. Returns what `fn` returns. */
  enter<T>(fn: () => T): T {
    return this.method.scoped === undefined ? runInHold(this.locks, fn) : this.locks.run(fn);
  }

  /** Aborts when the client no longer waits for the request. */
  get signal(): AbortSignal {
    return this.aborter.signal;
  }

  /** True while the method or a wrapper above it runs, or waits for its lock. */
  get working(): boolean {
    return this.calls.isBusy;
  }

  /** True while a file that the handler returned is being sent. */
  get streaming(): boolean {
    return this.sending !== undefined;
  }

  /**
   * Runs the method, after the earlier calls of its caller. An interceptor may retry the handler while the first call
   * is still running, and the lock of the scope does not keep the two apart.
   */
  callMethod<T>(work: () => Promise<T>): Promise<T> {
    const calls = this.currentCalls;
    const result = calls.run(() => insideMethod(work));
    if (calls === this.calls) result.then(() => this.onReady?.(), ignore);
    return result;
  }

  /**
   * Runs a function that calls the handler, such as the one of a decorator between the response and `@Locked`. The
   * locks of the scope are held until it has settled, and the calls that it has made are over.
   */
  callWrapper<T>(work: () => Promise<T>): Promise<T> {
    const calls = this.currentCalls;
    const inner = new CallQueue();
    const result = calls.run(() => callers.run({ scope: this, calls: inner }, work), inner);
    const onReturned = (value: T): void => {
      // The method's Observable gets its lock when somebody subscribes to it.
      if (!isObservable(value) || !this.returnsObservable) this.onReady?.();
    };
    if (calls === this.calls) result.then(onReturned, ignore);
    return result;
  }

  /** The queue of the present caller. The calls of a wrapper cannot wait in the queue where the wrapper is. */
  private get currentCalls(): CallQueue {
    const caller = callers.getStore();
    return caller?.scope === this && caller.calls.isOpen ? caller.calls : this.calls;
  }

  private get returnsObservable(): boolean {
    return (this.method.locked ?? this.method.scoped)?.returnsObservable === true;
  }

  /** Keeps the locks that the method was given until the end of the scope. */
  keep(hold: Lock | MultiLock, { onLost, awaitRelease }: KeptUse): void {
    this.uses.push(hold);
    this.locks.keepAll(hold, { onLost, awaitRelease, mayFollowCommit: false });
  }

  /** Returns the scope's own hold of the locks that the method was given. */
  ownHoldOf(hold: Lock | MultiLock): Lock | MultiLock {
    return this.locks.ownHoldOf(hold);
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

  /** Aborts the signals of all holds. The locks stay held until the method and the file have ended. */
  abort(): void {
    const reason = new DOMException('Nobody waits for this call any more.', 'AbortError');
    this.aborter.abort(reason);
    this.locks.abort(reason);
    for (const use of this.uses) use.abort(reason);
  }

  /**
   * Releases the locks after the method and the file have ended.
   *
   * @throws LockLostError if a lock was lost, unless `onLost` is `ignore`. Its cause is the error of the work.
   */
  async end(workError?: unknown): Promise<void> {
    this.ended = true;
    // A call after an abort still belongs to the scope, so that it fails, too.
    if (!this.signal.aborted) this.calls.isOpen = false;
    await this.calls.idle();
    await this.sending;
    await this.locks.end(workError);
  }
}

const ignore = (): void => undefined;

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
