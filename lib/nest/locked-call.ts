import { Logger } from '@nestjs/common';
import {
  defer,
  from,
  isObservable,
  mergeMap,
  Observable,
  type Observer,
  of,
  type Subscriber,
  type Subscription,
} from 'rxjs';
import { eitherOf } from '../common/abort-signals.js';
import { LockConfigError } from '../common/errors.js';
import { dropPromise } from '../common/format-value.js';
import { runInHold } from '../engine/call-context.js';
import type { Lock } from '../engine/lock.js';
import type { MultiLock } from '../engine/multi-lock.js';
import { runOnce, runUnder, settle } from '../engine/hold.js';
import { runWork, workChannel } from '../events/tracing.js';
import type { LockService } from '../lock.service.js';
import { checkHoldTimes, type ResolvedLockOptions } from '../options/resolve-options.js';
import { labelOf, resultInstead } from '../wrapped-function.js';
import { serviceOf } from './bind.js';
import { markClientInput } from './client-input.js';
import type { LockedMethod } from './decorated-method.js';
import { HandlerScope, insideMethod } from './handler-scope.js';

type Held = Lock | MultiLock;

/** Calls a `@Locked` method under its lock. Returns a promise, or an Observable if the method declares one. */
export function callLocked(method: LockedMethod, instance: unknown, args: readonly unknown[]): unknown {
  try {
    const call = new LockedCall(method, instance, args);
    return method.returnsObservable ? call.observe() : call.run();
  } catch (error) {
    if (method.returnsObservable) throw error;
    // The caller of a method that returns a promise expects a rejection.
    return Promise.reject(error);
  }
}

/** One call of a `@Locked` method, with the arguments that the method gets. */
class LockedCall {
  private readonly service: LockService;
  /** The request that the method is called for, if it is called as a handler. */
  private readonly scope: HandlerScope | undefined;
  private readonly options: ResolvedLockOptions;
  /** What the caller gets. */
  private result: Promise<unknown> | undefined;

  constructor(
    private readonly method: LockedMethod,
    private readonly instance: unknown,
    private readonly args: readonly unknown[],
  ) {
    this.service = serviceOf(method, instance);
    this.scope = HandlerScope.of(method);
    this.options = { ...this.service.defaults, ...method.options };
    checkHoldTimes(this.options, `@Locked of ${method.name}`);
  }

  /** Runs the method under the lock. The scope of a handler keeps the lock until the scope ends. */
  run(): Promise<unknown> {
    this.result = this.scope === undefined ? this.acquireAndCall() : this.scope.call(() => this.acquireAndCall());
    return this.result;
  }

  private async acquireAndCall(): Promise<unknown> {
    let lock: Held;
    try {
      lock = await this.acquire(this.scope?.signal);
    } catch (error) {
      return this.onRefused(error);
    }
    // A handler may use the lock until its response is complete, for example for a file that it returns.
    const given = this.scope?.ownHoldOf(lock) ?? lock;
    const { onceMs, onLost } = this.options;
    const isHandler = this.scope !== undefined;
    const work = (): Promise<unknown> => this.callAndCheck(given);
    if (onceMs === undefined) return runUnder(lock, onLost, work, isHandler);
    return runUnder(lock, onLost, () => runOnce(lock as Lock, onceMs, work));
  }

  private async callAndCheck(lock: Held): Promise<unknown> {
    const returned = this.callMethod(lock);
    // Nest awaits what a handler returns, whatever it is.
    if (this.scope !== undefined) return returned;
    const value = isThenable(returned) ? await returned : returned;
    // The lock ends with the method, so the Observable would run without it.
    if (isObservable(value))
      throw new LockConfigError(
        `${this.method.name} returns an Observable: declare \`Observable<…>\` as its return type, with Observable ` +
          'imported as a value, so that @Locked can hold the lock until it completes.',
      );
    if (isThenable(returned)) return value;
    // Its caller expects no promise, and does not handle a rejection.
    dropPromise(this.result);
    throw synchronousMethod(this.method, returned);
  }

  /** Runs a method that returns an Observable, each time somebody subscribes to the result. */
  observe(): Observable<unknown> {
    return new Observable((subscriber) => {
      const { scope } = this;
      const unsubscribed = new AbortController();
      const either = eitherOf(unsubscribed.signal, scope?.signal);
      const acquire = (): Promise<Held> => this.acquire(either.signal);
      const acquired = scope === undefined ? acquire() : scope.call(acquire);
      acquired
        .then(
          (lock) => insideMethod(() => this.stream(lock, subscriber)),
          (error: unknown) => this.streamInstead(error, subscriber),
        )
        .finally(() => either.stop())
        .catch((error: unknown) => subscriber.error(error));
      return () => unsubscribed.abort(unsubscribedError());
    });
  }

  /**
   * Passes the method's Observable on, and ends the hold before its end is passed on. Unsubscribing aborts the signal
   * of the hold and ends the hold.
   */
  private stream(lock: Held, subscriber: Subscriber<unknown>): void {
    let ended = subscriber.closed;
    const end = (then: () => void, workError?: unknown): void => {
      ended = true;
      settle(lock, this.options.onLost, workError).then(then, (lost: unknown) => subscriber.error(lost));
    };
    if (ended) return end(() => undefined);
    const observer: Observer<unknown> = {
      next: (value) => subscriber.next(value),
      error: (error: unknown) => end(() => subscriber.error(error), error),
      complete: () => end(() => subscriber.complete()),
    };
    subscriber.add(runInHold(lock, () => this.subscribe(lock, observer)));
    subscriber.add(() => {
      if (ended) return;
      lock.abort(unsubscribedError());
      end(() => undefined);
    });
  }

  private subscribe(lock: Held, observer: Partial<Observer<unknown>>): Subscription {
    // Even if the method returns something other than it declares.
    const source = defer(() => toObservable(this.callMethod(lock)));
    if (!workChannel.hasSubscribers) return source.subscribe(observer);
    return runWork(lock.locks, () => source.subscribe(observer));
  }

  private async streamInstead(error: unknown, subscriber: Subscriber<unknown>): Promise<void> {
    const instead = await this.onRefused(error);
    if (isObservable(instead)) return void subscriber.add(instead.subscribe(subscriber));
    subscriber.next(instead);
    subscriber.complete();
  }

  private async acquire(callerSignal: AbortSignal | undefined): Promise<Held> {
    const { options } = this;
    const resource = this.resource();
    const either = eitherOf(callerSignal, options.signal);
    let lock: Held;
    try {
      const { name: method, family } = this.method;
      const call = {
        method,
        family,
        label: labelOf(method, this.method.label, this.instance, this.args),
        signal: either.signal,
      };
      lock = await this.service.acquireResolved(resource, { ...options, ...call, warnHeldMs: this.warnHeldMs });
    } finally {
      either.stop();
    }
    if (callerSignal?.aborted === true) {
      // The caller left at the moment of the grant. The method does not start, so `minHoldMs` does not apply.
      await Promise.allSettled(lock.locks.map((each) => each.discard()));
      throw callerSignal.reason;
    }
    this.scope?.keep(lock, options);
    return lock;
  }

  private resource(): string | readonly string[] {
    try {
      return this.method.resourceOf(this.instance, this.args);
    } catch (error) {
      throw this.scope === undefined ? error : markClientInput(error, this.scope.context, this.method.key);
    }
  }

  /** A stream holds its lock until its subscriber leaves, so it gets no warning by default. */
  private get warnHeldMs(): number | false {
    const { returnsObservable, options } = this.method;
    return returnsObservable ? (options.warnHeldMs ?? false) : this.options.warnHeldMs;
  }

  /** Returns what the call returns in place of the method's result. Throws the error if nothing takes its place. */
  private onRefused(error: unknown): unknown {
    return resultInstead(error, this.method, this.instance, this.args);
  }

  private callMethod(lock: Held): unknown {
    const { lockIndexes, original } = this.method;
    if (lockIndexes.length === 0) return original.apply(this.instance, this.args as unknown[]);
    const args = [...this.args];
    for (const index of lockIndexes) args[index] = lock;
    return original.apply(this.instance, args);
  }
}

/** Returns a method's result as an Observable, even if the method returns something other than it declares. */
function toObservable(result: unknown): Observable<unknown> {
  if (isObservable(result)) return result;
  // An async wrapper below our decorator returns a promise of the method's Observable.
  return from(Promise.resolve(result)).pipe(mergeMap((value) => (isObservable(value) ? value : of(value))));
}

function unsubscribedError(): DOMException {
  return new DOMException('This Observable no longer has a subscriber.', 'AbortError');
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function';
}

/** Each method is reported once. */
const reported = new WeakSet<LockedMethod>();

/**
 * Returns the error for a method that is not asynchronous. Its callers get a promise where they expect a value, so that
 * `left(1) > 0` is false. Also logs the first one of each method, because such callers handle no rejection.
 */
function synchronousMethod(method: LockedMethod, returned: unknown): LockConfigError {
  // Without the value itself, which may be a secret.
  const message =
    `${method.name} is @Locked and returned a value of type ${typeof returned}, not a promise. Its callers get a ` +
    'promise, because the lock is acquired first: declare the method async, and await its calls.';
  if (!reported.has(method)) new Logger('RedisLockModule').error(message);
  reported.add(method);
  return new LockConfigError(message);
}
