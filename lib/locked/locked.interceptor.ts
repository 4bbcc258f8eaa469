import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  Optional,
} from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { Observable, tap } from 'rxjs';
import { LockError } from '../core/errors.js';
import { HandlerScope, scopeOfContext } from './handler-scope.js';
import { markUnseen } from './lock-exception.filter.js';
import { type DecoratedMethod, decoratedMethodOf } from './locked-method.js';

/**
 * Holds the lock of a `@Locked` handler until the response is complete, interceptors included, and keeps the locks of a
 * `@LockScope` handler equally long. `RedisLockModule` registers it for the whole application, and both decorators
 * register it for each handler, because global interceptors do not see every call. Only the outermost one releases the
 * locks.
 *
 * @publicApi
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor {
  constructor(@Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const method = decoratedMethodOf(context.getHandler());
    if (method === undefined) return next.handle();
    const scope = scopeOfContext(context);
    if (scope === undefined) return this.open(method, context, next);
    return next.handle().pipe(
      tap({
        subscribe: () => scope.onSubscribe(),
        unsubscribe: () => scope.onUnsubscribe(),
      }),
    );
  }

  private open(method: DecoratedMethod, context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return handleInScope(method, context, next).pipe(tap({ error: (error) => this.onError(error, context) }));
  }

  /** Marks an error for the filter of the handler's class, if no global filter of the application sees it. */
  private onError(error: unknown, context: ExecutionContext): void {
    if (this.application === undefined || !(error instanceof LockError)) return;
    // Nest has no global filters for gateways. Elsewhere they run if the global interceptors run.
    const isSeen = context.getType() !== 'ws' && this.application.getGlobalInterceptors().includes(this);
    if (!isSeen) markUnseen(error);
  }
}

function handleInScope(method: DecoratedMethod, context: ExecutionContext, next: CallHandler): Observable<unknown> {
  return new Observable((subscriber) => {
    const scope = new HandlerScope(method, context);
    const fail = (lost: unknown): void => subscriber.error(lost);
    // Nest binds the handler's async context when `handle()` is called, so that call is also inside the scope.
    const subscription = scope.run(() =>
      next.handle().subscribe({
        next: (value) => {
          scope.trackFile(value);
          subscriber.next(value);
        },
        error: (error: unknown) => scope.respond(() => subscriber.error(error), fail, error),
        complete: () => scope.respond(() => subscriber.complete(), fail),
      }),
    );
    return () => {
      subscription.unsubscribe();
      scope.leave();
    };
  });
}
