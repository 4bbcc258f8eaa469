import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  Logger,
  type NestInterceptor,
  Optional,
} from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { Observable, tap } from 'rxjs';
import { sharedClass } from '../core/context/copies.js';
import { LockError } from '../core/errors.js';
import { ErrorResponses, logUnexpected } from './error-responses.js';
import { type HandlerMethod, handlerMethodOf, HandlerScope, scopeOfContext } from './handler-scope.js';
import { markUnseen } from './lock-exception.filter.js';
import { respondWithEvents, sendEventsOf } from './sse-response.js';

/**
 * Holds the lock of a `@Locked` handler until the response is complete, interceptors included, and keeps the locks of a
 * `@LockScope` handler as long. `RedisLockModule` registers it for the whole application, and both decorators for each
 * handler, because global interceptors do not see every call. Only the outer one of a call releases the locks.
 *
 * @publicApi
 */
@Injectable()
@sharedClass('LockedInterceptor')
export class LockedInterceptor implements NestInterceptor {
  private readonly logger = new Logger('RedisLockModule');

  constructor(@Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const method = handlerMethodOf(context.getHandler());
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

  private open(method: HandlerMethod, context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const open = (onReady?: () => void): Observable<unknown> =>
      handleInScope(method, context, next, onReady).pipe(tap({ error: (error) => this.onError(error, context) }));
    const sendEvents = sendEventsOf(context.getHandler());
    if (sendEvents === undefined) return open();
    return respondWithEvents(sendEvents, context, open, (error) => this.toPublic(error));
  }

  /** Returns what a client may know of an error after its response has begun. No filter sees such an error. */
  private toPublic(error: unknown): unknown {
    const responses = ErrorResponses.of(this.application);
    if (!(error instanceof LockError) || !responses.filter) return error;
    const response = responses.responseTo(error);
    logUnexpected(this.logger, error, response);
    return new Error(response.message, { cause: error });
  }

  /** Marks an error for the filter of the handler's class, if no global filter of the application sees it. */
  private onError(error: unknown, context: ExecutionContext): void {
    if (!(error instanceof LockError) || this.application === undefined) return;
    // Nest has no global filters for gateways. Elsewhere they run if the global interceptors run.
    const unseen = context.getType() === 'ws' || !this.application.getGlobalInterceptors().includes(this);
    if (unseen && ErrorResponses.of(this.application).filter) markUnseen(error);
  }
}

function handleInScope(
  method: HandlerMethod,
  context: ExecutionContext,
  next: CallHandler,
  onReady?: () => void,
): Observable<unknown> {
  return new Observable((subscriber) => {
    const scope = new HandlerScope(method, context);
    scope.onReady = onReady;
    let ended = false;
    const endWith = (pass: () => void, workError?: unknown): void => {
      ended = true;
      // An error from outside of the method, such as a timeout, or a response in place of the method's: nobody waits
      // for the method any more. A response before the method, such as a cached one, lets the method go on.
      const failed = workError !== undefined && (scope.working || scope.unsubscribed || !scope.hasLocks);
      if (failed || (scope.working && scope.unsubscribed)) scope.abort();
      // These responses do not wait for the release, and neither does a file that is still being sent.
      const passNow = scope.working || scope.streaming || !scope.hasLocks;
      const released = scope.end(workError);
      if (passNow) pass();
      released.then(
        () => passNow || pass(),
        (lost: unknown) => passNow || subscriber.error(lost),
      );
    };
    // Nest binds the handler's async context when `handle()` is called, so the call is inside, too.
    const subscription = scope.run(() =>
      next.handle().subscribe({
        next: (value) => {
          scope.trackStream(value);
          subscriber.next(value);
        },
        error: (error: unknown) => endWith(() => subscriber.error(error), error),
        complete: () => endWith(() => subscriber.complete()),
      }),
    );
    return () => {
      subscription.unsubscribe();
      if (ended) return;
      ended = true;
      scope.abort();
      scope.end().catch(() => undefined);
    };
  });
}
