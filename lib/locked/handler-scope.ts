import { AsyncLocalStorage } from 'node:async_hooks';
import { finished, type Readable } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import { runInHold } from '../core/hold/held-locks.js';
import type { Lock } from '../core/hold/lock.js';
import { type KeptUse, ScopeHold } from '../core/hold/lock-scope.js';
import type { MultiLock } from '../core/hold/multi-lock.js';
import type { DecoratedMethod, LockedMethod, ScopedMethod } from './locked-method.js';

// Code inside the method has no scope, because the method's calls of itself are calls like any other.
const scopes = new AsyncLocalStorage<HandlerScope | undefined>();

/** Runs the work of a handler's method. */
export function insideMethod<T>(fn: () => T): T {
  return scopes.run(undefined, fn);
}

/** Returns the scope of the request that a handler is called for, `undefined` after its response. */
export function scopeOf(method: LockedMethod | ScopedMethod): HandlerScope | undefined {
  const scope = scopes.getStore();
  return scope?.takesCallsOf(method) === true ? scope : undefined;
}

/** Returns the scope that an outer interceptor opened for a request. */
export function scopeOfContext(context: ExecutionContext): HandlerScope | undefined {
  const scope = scopes.getStore();
  return scope?.context === context ? scope : undefined;
}

/**
 * One request to a handler with `@Locked` or `@LockScope`, from the first interceptor to the last. It is a lock scope.
 * With `@LockScope`, it keeps all locks that are acquired inside, otherwise only those that the method was given. The
 * interceptor opens and ends it. So the locks cover what other interceptors do after the method.
 */
export class HandlerScope {
  private readonly locks: ScopeHold;
  private readonly uses: (Lock | MultiLock)[] = [];
  private readonly aborter = new AbortController();
  /** The end of the last call of the method. Undefined if none runs or waits. */
  private lastCall: Promise<void> | undefined;
  private isCalled = false;
  /** True while the Observable of the call has no subscriber. An interceptor may subscribe again. */
  private isUnsubscribed = false;
  private sending: Promise<void> | undefined;
  private ended = false;

  constructor(
    private readonly method: DecoratedMethod,
    readonly context: ExecutionContext,
  ) {
    this.locks = new ScopeHold(method.scoped?.onLost);
  }

  /** Returns whether a call of that method belongs to this request. */
  takesCallsOf(method: LockedMethod | ScopedMethod): boolean {
    // A call after an abort still belongs to the request, so that it also fails.
    const isOpen = !this.ended || this.signal.aborted;
    return isOpen && (method === this.method.locked || method === this.method.scoped);
  }

  /** Whether the method has `@Locked`, above or below `@LockScope`, even with other decorators between them. */
  get hasLockedMethod(): boolean {
    return this.method.locked !== undefined;
  }

  /** Runs the interceptors and what they call. Returns what `fn` returns. */
  run<T>(fn: () => T): T {
    return scopes.run(this, () => this.enter(fn));
  }

  /** Runs `fn`, and everything that it starts, under the locks of the scope. Returns what `fn` returns. */
  enter<T>(fn: () => T): T {
    return this.method.scoped === undefined ? runInHold(this.locks, fn) : this.locks.run(fn);
  }

  /** Aborts when the client no longer waits for the request. */
  get signal(): AbortSignal {
    return this.aborter.signal;
  }

  /**
   * Runs the method, after the earlier calls of this request. An interceptor may retry the handler while the first call
   * is still running, and the lock of the scope does not exclude the two calls from each other.
   */
  callMethod<T>(work: () => Promise<T>): Promise<T> {
    this.isCalled = true;
    const call = (): Promise<T> => insideMethod(work);
    const result = this.lastCall === undefined ? call() : this.lastCall.then(call);
    const end = (): void => {
      if (this.lastCall === ended) this.lastCall = undefined;
    };
    const ended = result.then(end, end);
    this.lastCall = ended;
    return result;
  }

  /** Keeps the method's locks until the end of the scope. */
  keep(hold: Lock | MultiLock, use: KeptUse): void {
    this.uses.push(hold);
    this.locks.keepAll(hold, use);
  }

  /** Returns the scope's own hold of the locks that the method was given. */
  ownHoldOf(hold: Lock | MultiLock): Lock | MultiLock {
    return this.locks.ownHoldOf(hold);
  }

  /** Makes the scope wait for a file that the interceptors returned. Nest sends it after they have completed. */
  trackFile(value: unknown): void {
    const body = bodyOf(value);
    if (body === undefined) return;
    const sending = sent(body).finally(() => {
      if (this.sending === sending) this.sending = undefined;
    });
    this.sending = sending;
  }

  onSubscribe(): void {
    this.isUnsubscribed = false;
  }

  onUnsubscribe(): void {
    this.isUnsubscribed = true;
    // Before the end, an interceptor may still subscribe again.
    if (this.ended) this.abort();
  }

  /**
   * Ends the scope with the response. The response follows the release of the locks, and does not wait for a method
   * that is still running, or for a file.
   *
   * @param pass passes the response on. `fail` is called instead if a lock was lost.
   * @param error the error that is the response. Undefined for any other response.
   */
  respond(pass: () => void, fail: (lost: unknown) => void, error?: unknown): void {
    const isWorking = this.lastCall !== undefined;
    const isError = error !== undefined;
    // An error that does not come from the method, such as that of a timeout.
    const isForeignError = isError && (isWorking || this.isUnsubscribed || !this.isCalled);
    // A response in place of the method's. A stale response leaves the method subscribed and running.
    const isReplacement = isWorking && this.isUnsubscribed;
    if (isForeignError || isReplacement) this.abort();
    const passesNow = isWorking || this.sending !== undefined;
    const ended = this.end(error);
    if (passesNow) pass();
    ended.then(passesNow ? ignore : pass, passesNow ? ignore : fail);
  }

  /** Ends the scope after the client has left. Does nothing after the response. */
  leave(): void {
    if (this.ended) return;
    this.abort();
    this.end().catch(ignore);
  }

  /** Aborts the signals of all holds. The locks stay held until the method and the file have ended. */
  private abort(): void {
    const reason = new DOMException('The client no longer waits for this call.', 'AbortError');
    this.aborter.abort(reason);
    this.locks.abort(reason);
    for (const use of this.uses) use.abort(reason);
  }

  /**
   * Releases the locks after the method and the file have ended.
   *
   * @throws LockLostError if a lock was lost, unless `onLost` is `ignore`. Its cause is the error of the work.
   */
  private async end(workError?: unknown): Promise<void> {
    this.ended = true;
    while (this.lastCall !== undefined) await this.lastCall;
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

/** Resolves when the stream has been read to its end, has failed, or is closed. */
function sent(body: Readable): Promise<void> {
  // Streams of old libraries do not close themselves, so the end of reading also counts.
  return new Promise((resolve) => void finished(body, { writable: false }, () => resolve()));
}
