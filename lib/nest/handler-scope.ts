import { finished } from 'node:stream';
import type { ExecutionContext } from '@nestjs/common';
import { RESPONSE_PASSTHROUGH_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { callerAround, runForCaller, runInHold } from '../engine/call-context.js';
import type { Lock } from '../engine/lock.js';
import { type KeptUse, ScopeHold } from '../engine/lock-scope.js';
import type { MultiLock } from '../engine/multi-lock.js';
import { boundaryOf } from './boundary.js';
import type { DecoratedMethod, LockedMethod, ScopedMethod } from './decorated-method.js';

/** What calls a handler's method. */
interface Caller {
  readonly scope: HandlerScope;
  /** Whether a call of {@link HandlerScope.call} is around it, such as that of `@LockScope` around `@Locked`. */
  readonly isInCall: boolean;
}

/** Runs the work of a handler's method. Its calls are nested, even if they call the same method. */
export function insideMethod<T>(fn: () => T): T {
  return runForCaller(undefined, fn);
}

/** Returns what calls a handler. Undefined inside its method, because calls of the method are calls like any other. */
function handlerCaller(): Caller | undefined {
  return callerAround() as Caller | undefined;
}

/**
 * One request to a handler with `@Locked` or `@LockScope`. The interceptor opens it, and it ends when both the response
 * is complete and the method has settled. So the locks cover what other interceptors do after the method.
 *
 * It is a lock scope. With `@LockScope`, it keeps all locks that are acquired inside, otherwise only those that the
 * method was given.
 */
export class HandlerScope {
  private readonly locks: ScopeHold;
  private readonly holds: (Lock | MultiLock)[] = [];
  /** Resolves when the calls of the method so far have settled. Undefined if none is running. */
  private running: Promise<void> | undefined;
  /** Resolves when the response has been sent. Undefined if Nest sends it when the interceptors have completed. */
  private sent: Promise<void> | undefined;
  private isOpen = true;

  constructor(
    private readonly method: DecoratedMethod,
    readonly context: ExecutionContext,
  ) {
    this.locks = new ScopeHold(method.scoped?.onLost);
    if (sendsResponseItself(context, method)) this.awaitResponse();
  }

  /** Returns the scope that an outer interceptor has opened for this request. */
  static around(context: ExecutionContext): HandlerScope | undefined {
    const scope = handlerCaller()?.scope;
    return scope?.context === context ? scope : undefined;
  }

  /** Returns the scope of the request that a method is called for. Undefined for any other call. */
  static of(method: LockedMethod | ScopedMethod): HandlerScope | undefined {
    const scope = handlerCaller()?.scope;
    const isOurs = method === scope?.method.locked || method === scope?.method.scoped;
    return scope?.isOpen === true && isOurs ? scope : undefined;
  }

  /** Runs the interceptors and what they call. Returns what `fn` returns. */
  run<T>(fn: () => T): T {
    return runForCaller({ scope: this, isInCall: false } satisfies Caller, () => this.enter(fn));
  }

  /** Runs `fn`, and everything that it starts, under the locks of the scope. Returns what `fn` returns. */
  enter<T>(fn: () => T): T {
    return this.method.scoped === undefined ? runInHold(this.locks, fn) : this.locks.run(fn);
  }

  /** Aborts when nobody waits for the request any longer, or a lock of the scope was lost. */
  get signal(): AbortSignal {
    return this.locks.signal;
  }

  /**
   * Calls the method, after its earlier calls in this scope: an interceptor may retry a handler that is still running,
   * and the locks of the scope do not exclude the two calls from each other.
   */
  call<T>(work: () => Promise<T>): Promise<T> {
    if (handlerCaller()?.isInCall === true) return insideMethod(work);
    return this.enqueue(() => insideMethod(work));
  }

  /** Calls a function around the method in the same way. The scope also waits for what it does after the method. */
  callAround<T>(work: () => Promise<T>): Promise<T> {
    return this.enqueue(() => runForCaller({ scope: this, isInCall: true } satisfies Caller, work));
  }

  private enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.running === undefined ? work() : this.running.then(work);
    const onSettled = (): void => {
      if (this.running === settled) this.running = undefined;
    };
    const settled = result.then(onSettled, onSettled);
    this.running = settled;
    return result;
  }

  /** Keeps the locks of the method until the end of the scope. */
  keep(hold: Lock | MultiLock, { onLost, awaitRelease }: KeptUse): void {
    this.holds.push(hold);
    this.locks.keepAll(hold, { onLost, awaitRelease });
  }

  /** Returns the scope's own hold of the locks that the method was given. It ends with the scope. */
  ownHoldOf(hold: Lock | MultiLock): Lock | MultiLock {
    return this.locks.ownHoldOf(hold);
  }

  /** Whether `@Locked` is also on the method. */
  get hasLockedMethod(): boolean {
    return this.method.locked !== undefined;
  }

  /** Called with each value that the interceptors emit. Nest sends a file after the interceptors have completed. */
  onValue(value: unknown): void {
    if (isFile(value)) this.awaitResponse();
  }

  /**
   * Ends the scope with the response. The response follows the release of the locks, so that the client's next request
   * finds them free. It does not wait for a method that is still running.
   *
   * @param pass passes the response on. `fail` is called instead if a lock was lost before.
   * @param error the error that is the response. Undefined for any other response.
   */
  respond(pass: () => void, fail: (lost: unknown) => void, error?: unknown): void {
    const isRunning = this.running !== undefined;
    // Something responded in place of the method, such as a timeout.
    if (isRunning) this.abort();
    const ended = this.end(error);
    if (!isRunning && this.sent === undefined) return void ended.then(pass, fail);
    ended.catch(ignore);
    pass();
  }

  /** Ends the scope after the caller has left. Does nothing after the response. */
  leave(): void {
    if (!this.isOpen) return;
    this.abort();
    this.end().catch(ignore);
  }

  /** Aborts the signals of all holds. The locks stay held until the method has settled. */
  private abort(): void {
    const reason = new DOMException('The client no longer waits for this call.', 'AbortError');
    this.locks.abort(reason);
    for (const hold of this.holds) hold.abort(reason);
  }

  /**
   * Releases the locks after the method has settled and the response has been sent.
   *
   * @throws LockLostError if a lock was lost, unless `onLost` is `ignore`. Its cause is the error of the work.
   */
  private async end(workError?: unknown): Promise<void> {
    this.isOpen = false;
    await this.running;
    await this.sent;
    await this.locks.end(workError);
  }

  private awaitResponse(): void {
    if (boundaryOf(this.context) !== 'http') return;
    const response = this.context.switchToHttp().getResponse<NodeResponse & { readonly raw?: NodeResponse }>();
    this.sent ??= whenSent(response.raw ?? response);
  }
}

type NodeResponse = Parameters<typeof finished>[0];

const ignore = (): void => undefined;

/** Resolves when a response has been sent, or its connection is closed. */
function whenSent(response: NodeResponse): Promise<void> {
  return new Promise((resolve) => {
    try {
      finished(response, () => resolve());
    } catch {
      // The response of an adapter that has no Node streams.
      resolve();
    }
  });
}

/**
 * Recognizes a `StreamableFile` by its shape, because its class may come from another copy of Nest, and a stream of
 * Node, which Fastify sends.
 */
function isFile(value: unknown): boolean {
  const file = value as Partial<Record<'getStream' | 'setErrorHandler' | 'pipe' | 'on', unknown>> | null | undefined;
  const isStreamable = typeof file?.getStream === 'function' && typeof file.setErrorHandler === 'function';
  return isStreamable || (typeof file?.pipe === 'function' && typeof file.on === 'function');
}

/** The numbers of `@Res()` and `@Next()` in Nest's metadata. */
const RESPONSE_OR_NEXT = /^[12]:/;

/** Returns whether a handler sends the response itself, through `@Res()` or `@Next()`. */
function sendsResponseItself(context: ExecutionContext, { locked, scoped }: DecoratedMethod): boolean {
  const key = (locked ?? scoped)?.key;
  if (key === undefined || context.getType() !== 'http') return false;
  const parameters = Reflect.getMetadata(ROUTE_ARGS_METADATA, context.getClass(), key) as object | undefined;
  if (!Object.keys(parameters ?? {}).some((each) => RESPONSE_OR_NEXT.test(each))) return false;
  return Reflect.getMetadata(RESPONSE_PASSTHROUGH_METADATA, context.getClass(), key) !== true;
}
