import { defer, isObservable, Observable, type Observer, type Subscriber, type Subscription } from 'rxjs';
import { eitherOf } from '../core/context/abort-signals.js';
import { checkValue } from '../core/checks/check-options.js';
import { LockTimeoutError, LockUnavailableError } from '../core/errors.js';
import { dropPromise } from '../core/format-value.js';
import { runInHold } from '../core/hold/held-locks.js';
import type { Lock } from '../core/hold/lock.js';
import type { MultiLock } from '../core/hold/multi-lock.js';
import { runUnder, settle } from '../core/hold/run-under.js';
import { runWork, workChannel } from '../core/events/tracing.js';
import type { LockService } from '../lock.service.js';
import { OPTIONS } from '../options/option-table.js';
import { checkHoldTimes, type ResolvedLockOptions } from '../options/resolve-options.js';
import { markClientInput } from './client-input.js';
import { ErrorResponses } from './error-responses.js';
import { toFieldError } from './graphql-error.js';
import { type HandlerScope, insideMethod, scopeOf } from './handler-scope.js';
import { isFieldResolver } from './handlers.js';
import { serviceOf } from './bound-service.js';
import { type LockedMethod, type Method, type OnBusy, type OnUnavailable, replaceMethod } from './locked-method.js';
import { streamUnder, toObservable, undeclaredObservable, unsubscribedError } from './stream-under.js';

/** Returns a function that runs the method under its lock. See {@link replaceMethod}. */
export function wrapMethod(method: LockedMethod, prototype: object, propertyKey: string | symbol): Method {
  // Decorators above `@Locked` are known only at the first call, and may have replaced the function.
  let isField: boolean | undefined;
  return replaceMethod(method.original, (instance, args) => {
    if (method.returnsObservable) return new LockedCall(method, instance, args).observe();
    isField ??= isFieldResolver(prototype, propertyKey);
    try {
      const call = new LockedCall(method, instance, args);
      return isField ? call.runField() : call.run();
    } catch (error) {
      // The caller of a method that returns a promise expects a rejection.
      return Promise.reject(error);
    }
  });
}

type Held = Lock | MultiLock;

/** One call of a `@Locked` method, with the arguments that the method gets. */
class LockedCall {
  private readonly service: LockService;
  private options!: ResolvedLockOptions;
  private readonly scope: HandlerScope | undefined;

  constructor(
    private readonly method: LockedMethod,
    private readonly instance: unknown,
    private readonly args: readonly unknown[],
  ) {
    this.service = serviceOf(method, instance);
    this.scope = scopeOf(method);
  }

  /** Runs the method under the lock. The scope of a handler keeps the lock until the scope ends. */
  run(): Promise<unknown> {
    return this.scope === undefined ? this.invoke() : this.scope.callMethod(() => this.invoke());
  }

  /** Runs a GraphQL field resolver. */
  async runField(): Promise<unknown> {
    try {
      return await this.run();
    } catch (error) {
      throw toFieldError(error, ErrorResponses.of(this.service.engine));
    }
  }

  private async invoke(): Promise<unknown> {
    let lock: Held;
    try {
      lock = await this.acquire(this.scope?.signal);
    } catch (error) {
      return this.onAcquireError(error);
    }
    return runUnder(lock, this.options.onLost, () => this.callMethodOnce(lock));
  }

  /** Runs a method that returns an Observable, when somebody subscribes to the result. */
  observe(): Observable<unknown> {
    return new Observable((subscriber) => {
      const unsubscribed = new AbortController();
      const signal =
        this.scope === undefined ? unsubscribed.signal : AbortSignal.any([unsubscribed.signal, this.scope.signal]);
      const acquire = (): Promise<Held> => this.acquire(signal);
      const acquired = this.scope === undefined ? acquire() : this.scope.callMethod(acquire);
      acquired.then(
        (lock) => insideMethod(() => this.stream(lock, subscriber)),
        (error: unknown) => void this.streamAcquireError(error, subscriber),
      );
      return () => unsubscribed.abort(unsubscribedError());
    });
  }

  private stream(lock: Held, subscriber: Subscriber<unknown>): void {
    const { scope } = this;
    scope?.onSubscribe();
    streamUnder(subscriber, {
      abort: (reason) => {
        lock.abort(reason);
        scope?.onUnsubscribe();
      },
      subscribe: (observer) => runInHold(lock, () => this.subscribe(lock, observer)),
      end: (workError) => settle(lock, this.options.onLost, workError),
    });
  }

  private subscribe(lock: Held, observer: Partial<Observer<unknown>>): Subscription {
    const source = this.source(lock);
    if (!workChannel.hasSubscribers) return source.subscribe(observer);
    return runWork(lock.locks, () => source.subscribe(observer));
  }

  /** Returns the method's result as an Observable, even if the method returns something other than it declares. */
  private source(lock: Held): Observable<unknown> {
    return defer(() => toObservable(this.callMethod(lock)));
  }

  private async streamAcquireError(error: unknown, subscriber: Subscriber<unknown>): Promise<void> {
    try {
      const instead = await this.onAcquireError(error);
      if (isObservable(instead)) return void subscriber.add(instead.subscribe(subscriber));
      subscriber.next(instead);
      subscriber.complete();
    } catch (thrown) {
      subscriber.error(thrown);
    }
  }

  private async acquire(callerSignal: AbortSignal | undefined): Promise<Held> {
    const resource = this.resource();
    this.options = { ...this.service.defaults, ...this.method.options };
    checkHoldTimes(this.options);
    const { name: method, family } = this.method;
    const label = this.label();
    const either = eitherOf(callerSignal, this.options.signal);
    let lock: Held;
    try {
      const { signal } = either;
      const { warnHeldMs } = this;
      const options = { ...this.options, method, family, label, signal, warnHeldMs };
      lock = await this.service.acquireResolved(resource, options);
    } finally {
      either.stop();
    }
    if (callerSignal?.aborted === true) {
      // The caller left at the moment of the grant. The method does not start, so `minHoldMs` does not apply.
      await Promise.allSettled(lock.locks.map((each) => each.discard()));
      throw callerSignal.reason;
    }
    this.scope?.keep(lock, this.options);
    return lock;
  }

  /** A stream holds its lock until its client unsubscribes, so it gets no warning by default. */
  private get warnHeldMs(): number | false {
    const { returnsObservable, options } = this.method;
    return returnsObservable ? (options.warnHeldMs ?? false) : this.options.warnHeldMs;
  }

  private resource(): string | readonly string[] {
    try {
      return this.method.resourceOf(this.instance, this.args);
    } catch (error) {
      throw this.scope === undefined ? error : markClientInput(error, this.scope.context, this.method.key);
    }
  }

  private label(): string | undefined {
    const { label } = this.method;
    if (typeof label !== 'function') return label;
    const given: unknown = Reflect.apply(label, this.instance, this.args);
    dropPromise(given);
    if (given !== undefined) checkValue(this.method.name, 'the result of the label function', given, OPTIONS.label);
    return given as string | undefined;
  }

  private onAcquireError(error: unknown): unknown {
    const instead = this.insteadOf(error);
    if (instead === 'throw') throw error;
    return instead === 'skip' ? undefined : (Reflect.apply(instead, this.instance, [error, ...this.args]) as unknown);
  }

  private insteadOf(error: unknown): OnBusy | OnUnavailable {
    if (error instanceof LockTimeoutError) return this.method.onBusy;
    return error instanceof LockUnavailableError ? this.method.onUnavailable : 'throw';
  }

  private callMethod(lock: Held): unknown {
    const { lockIndexes, original } = this.method;
    if (lockIndexes.length === 0) return original.apply(this.instance, this.args as unknown[]);
    // A handler may use the lock until its response is complete, for example for a file that it returns.
    const given = this.scope === undefined ? lock : this.scope.ownHoldOf(lock);
    const args = [...this.args];
    for (const index of lockIndexes) args[index] = given;
    return original.apply(this.instance, args);
  }

  private async callMethodOnce(lock: Held): Promise<unknown> {
    const result = await this.callMethod(lock);
    if (this.scope !== undefined || !isObservable(result)) return result;
    // The lock ends with the method, so the Observable would run without it.
    throw undeclaredObservable(this.method.name, '@Locked can hold the lock');
  }
}
