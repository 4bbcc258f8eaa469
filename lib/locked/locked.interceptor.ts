import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { Observable, tap } from 'rxjs';
import { runInside, surroundings } from '../core/async-context.js';
import { HandlerScope } from './handler-scope.js';
import { lockedHandlerOf } from './locked-method.js';

/**
 * Opens a scope around each call of a handler that is marked `@Locked`, and releases the lock at its end. Registered for
 * the whole application by `RedisLockModule`, and for each handler by `@Locked`, because there are calls that global
 * interceptors do not see; where there is a scope already, the inner one only looks whether its call is still listened to.
 *
 * @publicApi
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const handler = lockedHandlerOf(context.getHandler());
    if (handler === undefined) return next.handle();
    const around = scopeAround(context);
    if (around !== undefined) {
      const listening = { subscribe: () => around.resume(), unsubscribe: () => around.abandon() };
      return next.handle().pipe(tap(listening));
    }
    return new Observable((subscriber) => {
      const scope = new HandlerScope(handler, context);
      let over = false;
      const endWith = (pass: () => void, workError?: unknown): void => {
        over = true;
        // Failed without the method (a timeout), or answered in its place: nobody waits for it any more. Only answered before it
        // (a cache that is brought up to date behind the answer), it goes on.
        const failed = workError !== undefined && (scope.working || scope.lock === undefined);
        if (failed || (scope.working && scope.abandoned)) scope.depart();
        // Such an answer, and one that is still being sent (a file), is passed on now.
        const passNow = scope.working || scope.streaming || scope.lock === undefined;
        const ended = scope.end(workError);
        if (passNow) pass();
        ended.then(
          () => passNow || pass(),
          (lost: unknown) => passNow || subscriber.error(lost),
        );
      };
      // `handle()` itself is called inside as well: Nest ties the handler's context to that moment.
      const subscription = runInside(scope, () =>
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
        if (over) return;
        over = true;
        scope.depart();
        scope.end().catch(() => undefined);
      };
    });
  }
}

function scopeAround(context: ExecutionContext): HandlerScope | undefined {
  for (const around of surroundings()) if (around instanceof HandlerScope && around.context === context) return around;
  return undefined;
}
