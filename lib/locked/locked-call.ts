import { defer, from, isObservable, Observable, type Subscriber } from 'rxjs';
import { LockConfigError, LockTimeoutError } from '../core/errors.js';
import { runInside, type Surrounding } from '../core/async-context.js';
import type { Hold } from '../core/hold/lock.js';
import { runUnder, settle } from '../core/hold/run-under.js';
import { type HandlerScope, type HandlerCall, scopeOf } from './handler-scope.js';
import type { LockService } from '../lock.service.js';
import type { LockOptions } from '../options/redis-lock.options.js';
import { type ResolvedLockOptions, resolveLockOptions } from '../options/resolve-options.js';

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
  resourceOf(instance: unknown, args: readonly unknown[]): string | readonly string[];
}

const nobodyListens = (): DOMException => new DOMException('Nobody listens to this Observable any more.', 'AbortError');

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
    this.scope = scopeOf(method);
  }

  /** Runs the method under the lock: the scope's, if it is a handler's call, else one that ends with the method. */
  run(): unknown {
    if (this.method.returnsObservable) return this.observe();
    return this.scope === undefined ? this.invoke() : this.scope.enter((turn) => this.invoke(turn));
  }

  private async invoke(turn?: HandlerCall): Promise<unknown> {
    let lock: Hold;
    try {
      lock = await this.acquire(this.scope?.signal);
    } catch (error) {
      return this.refused(error);
    }
    if (turn === undefined) return runUnder(lock, this.terms.onLost, async () => this.callOnce(lock));
    turn.lock = lock;
    if (this.fill(turn.scope, lock)) return this.call(lock);
    return runUnder(lock, this.terms.onLost, async () => this.call(lock));
  }

  private observe(): Observable<unknown> {
    return new Observable((subscriber) => {
      const left = new AbortController();
      const departure = this.scope === undefined ? left.signal : AbortSignal.any([left.signal, this.scope.signal]);
      const locked = this.scope?.enter(async (turn) => {
        turn.lock = await this.acquire(departure);
        return turn;
      });
      (locked ?? this.acquire(departure).then((lock) => ({ lock }))).then(
        (inside) => this.stream(inside, subscriber),
        (error: unknown) => void this.streamRefusal(error, subscriber),
      );
      return () => left.abort(nobodyListens());
    });
  }

  private stream(inside: Surrounding, subscriber: Subscriber<unknown>): void {
    const lock = inside.lock as Hold;
    if (this.scope !== undefined && this.fill(this.scope, lock)) {
      subscriber.add(runInside(inside, () => this.source(lock).subscribe(subscriber)));
      return;
    }
    let over = subscriber.closed;
    const end = (pass: () => void, workError?: unknown): void => {
      over = true;
      settle(lock, this.terms.onLost, workError).then(pass, (lost: unknown) => subscriber.error(lost));
    };
    if (over) return end(() => undefined);
    subscriber.add(
      runInside(inside, () =>
        this.source(lock).subscribe({
          next: (value) => subscriber.next(value),
          error: (error: unknown) => end(() => subscriber.error(error), error),
          complete: () => end(() => subscriber.complete()),
        }),
      ),
    );
    subscriber.add(() => {
      if (over) return;
      lock.abort(nobodyListens());
      end(() => undefined);
    });
  }

  /** What the method answers, whatever it was declared to. */
  private source(lock: Hold): Observable<unknown> {
    return defer(() => {
      const result = this.call(lock);
      return isObservable(result) ? result : from(Promise.resolve(result));
    });
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
  private fill(scope: HandlerScope, lock: Hold): boolean {
    return scope.fill(lock, (held, workError) => settle(held, this.terms.onLost, workError));
  }

  private async acquire(departure: AbortSignal | undefined): Promise<Hold> {
    const signals = [departure, this.terms.signal].filter((signal) => signal !== undefined);
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    // A handler that is tried again has the scope's lock: that is no nesting.
    const reentrant = this.terms.reentrant || this.scope?.lock !== undefined;
    const lock = await this.service.enter(this.method.resourceOf(this.instance, this.args), {
      ...this.terms,
      reentrant,
      signal,
    });
    if (departure?.aborted !== true) return lock;
    // Granted at the very moment at which everybody left: the method is not begun.
    for (const each of lock.locks) each.skipMinHold();
    await lock.release().catch(() => undefined);
    throw departure.reason;
  }

  private refused(error: unknown): unknown {
    const { onBusy } = this.method;
    if (onBusy === 'throw' || !(error instanceof LockTimeoutError)) throw error;
    return onBusy === 'skip' ? undefined : onBusy.apply(this.instance, [error, ...this.args] as never);
  }

  private call(lock: Hold): unknown {
    const { lockIndexes, original } = this.method;
    if (lockIndexes.length === 0) return original.apply(this.instance, this.args as unknown[]);
    const args = [...this.args];
    for (const index of lockIndexes) args[index] = lock;
    return original.apply(this.instance, args);
  }

  /** Without a scope the lock ends with the method: an Observable that it answers would run outside. */
  private async callOnce(lock: Hold): Promise<unknown> {
    const result = await this.call(lock);
    if (!isObservable(result)) return result;
    const message = `${this.method.name} answers an Observable: declare \`Observable<…>\` as its return type, with Observable`;
    throw new LockConfigError(`${message} imported as a value, so that @Locked can hold the lock until it completes.`);
  }
}

function serviceOf({ name, service }: LockedMethod, instance: unknown): LockService {
  const found = (instance as Record<symbol, LockService | undefined> | undefined)?.[service];
  if (found !== undefined) return found;
  throw new LockConfigError(
    `${name} is @Locked, but \`this\` has no lock service: it was not made by Nest, or the method was called without its ` +
      `instance. Let Nest make it, or in a unit test use withLocks() of nestjs-redis-lock/testing.`,
  );
}
