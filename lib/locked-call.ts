import { isObservable, Observable, type Subscriber } from 'rxjs';
import { LockConfigError, LockTimeoutError } from './core/errors.js';
import { runInside, surroundings } from './core/held-locks.js';
import type { Lock } from './core/lock.js';
import { runUnder, settle } from './core/run-under.js';
import { HandlerScope } from './handler-scope.js';
import type { LockService } from './lock.service.js';
import type { LockOptions } from './redis-lock.options.js';
import { type ResolvedLockOptions, resolveLockOptions } from './resolve-options.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What happens to a call whose lock others hold until the end of `waitMs`. */
export type OnBusy = 'throw' | 'skip' | ((error: LockTimeoutError, ...args: never[]) => unknown);

/** What `@Locked` has found out about a method; put on the method as its mark. */
export interface LockedMethod {
  /** `GoodsService.buy` */
  readonly name: string;
  /** The property that Nest puts the lock service into. */
  readonly service: symbol;
  readonly options: LockOptions;
  readonly onBusy: OnBusy;
  readonly returnsObservable: boolean;
  /** The parameters that get the lock. */
  readonly lockIndexes: readonly number[];
  readonly original: Method;
  resourceOf(instance: unknown, args: readonly unknown[]): string;
}

/** One call of a `@Locked` method, with the arguments that it really gets. */
export class LockedCall {
  private readonly service: LockService;
  private readonly terms: ResolvedLockOptions;
  private readonly scope: HandlerScope | undefined;

  constructor(
    private readonly method: LockedMethod,
    private readonly instance: unknown,
    private readonly args: readonly unknown[],
  ) {
    this.service = serviceOf(method, instance);
    this.terms = resolveLockOptions(method.options, this.service.defaults);
    this.scope = openScope(method);
  }

  /** Runs the method under the lock: the scope's, if it is a handler's call, else one that ends with the method. */
  run(): unknown {
    return this.method.returnsObservable ? this.observe() : this.invoke();
  }

  private async invoke(): Promise<unknown> {
    let lock: Lock;
    try {
      lock = await this.acquire(this.scope?.signal);
    } catch (error) {
      return this.refused(error);
    }
    if (this.scope === undefined) return runUnder(lock, this.terms.onLost, async () => this.callOnce(lock));
    this.fill(this.scope, lock);
    const work = runInside({ lock }, async () => this.call(lock));
    this.scope.track(work);
    return work;
  }

  private observe(): Observable<unknown> {
    return new Observable((subscriber) => {
      const departure = new AbortController();
      this.acquire(this.scope?.signal ?? departure.signal).then(
        (lock) => this.stream(lock, subscriber),
        (error: unknown) => void this.streamRefusal(error, subscriber),
      );
      return () => departure.abort(new DOMException('Nobody listens to this Observable any more.', 'AbortError'));
    });
  }

  private stream(lock: Lock, subscriber: Subscriber<unknown>): void {
    if (this.scope !== undefined) {
      this.fill(this.scope, lock);
      subscriber.add(runInside({ lock }, () => this.source(lock).subscribe(subscriber)));
      return;
    }
    let over = subscriber.closed;
    const end = (pass: () => void, workError?: unknown): void => {
      over = true;
      settle(lock, this.terms.onLost, workError).then(pass, (lost: unknown) => subscriber.error(lost));
    };
    if (over) return end(() => undefined);
    subscriber.add(
      runInside({ lock }, () =>
        this.source(lock).subscribe({
          next: (value) => subscriber.next(value),
          error: (error: unknown) => end(() => subscriber.error(error), error),
          complete: () => end(() => subscriber.complete()),
        }),
      ),
    );
    subscriber.add(() => over || end(() => undefined));
  }

  private source(lock: Lock): Observable<unknown> {
    try {
      return this.call(lock) as Observable<unknown>;
    } catch (error) {
      return new Observable((subscriber) => subscriber.error(error));
    }
  }

  private async streamRefusal(error: unknown, subscriber: Subscriber<unknown>): Promise<void> {
    try {
      const instead = await this.refused(error);
      if (isObservable(instead)) return void subscriber.add(instead.subscribe(subscriber));
      subscriber.next(instead);
      subscriber.complete();
    } catch (refusal) {
      subscriber.error(refusal);
    }
  }

  /** The scope keeps the lock from here on, beyond the method. */
  private fill(scope: HandlerScope, lock: Lock): void {
    scope.fill(lock, (held, workError) => settle(held, this.terms.onLost, workError));
  }

  private async acquire(departure: AbortSignal | undefined): Promise<Lock> {
    const signals = [departure, this.terms.signal].filter((signal) => signal !== undefined);
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    const target = this.service.targetOf(this.method.resourceOf(this.instance, this.args));
    const lock = await this.service.engine.acquire(target, { ...this.terms, signal });
    if (departure?.aborted !== true) return lock;
    // Granted at the very moment at which everybody left: the method is not begun.
    await lock.release().catch(() => undefined);
    throw departure.reason;
  }

  private refused(error: unknown): unknown {
    this.scope?.giveBack();
    const { onBusy } = this.method;
    if (onBusy === 'throw' || !(error instanceof LockTimeoutError)) throw error;
    return onBusy === 'skip' ? undefined : onBusy.apply(this.instance, [error, ...this.args] as never);
  }

  private call(lock: Lock): unknown {
    const { lockIndexes, original } = this.method;
    if (lockIndexes.length === 0) return original.apply(this.instance, this.args as unknown[]);
    const args = [...this.args];
    for (const index of lockIndexes) args[index] = lock;
    return original.apply(this.instance, args);
  }

  /** Without a scope the lock ends with the method: an Observable that it answers would run outside. */
  private async callOnce(lock: Lock): Promise<unknown> {
    const result = await this.call(lock);
    if (!isObservable(result)) return result;
    const message = `${this.method.name} answers an Observable: declare \`Observable<…>\` as its return type, with Observable`;
    throw new LockConfigError(`${message} imported as a value, so that @Locked can hold the lock until it completes.`);
  }
}

/** The open scope of this handler's call, if the interceptor has been here. */
function openScope(method: LockedMethod): HandlerScope | undefined {
  for (const around of surroundings()) if (around instanceof HandlerScope && around.take(method)) return around;
  return undefined;
}

function serviceOf({ name, service }: LockedMethod, instance: unknown): LockService {
  const found = (instance as Record<symbol, LockService | undefined> | undefined)?.[service];
  if (found !== undefined) return found;
  throw new LockConfigError(
    `${name} is @Locked, but \`this\` has no lock service: it was not made by Nest, or the method was called without its ` +
      `instance. Let Nest make it, or in a unit test use withLocks() of nestjs-redis-lock/testing.`,
  );
}
