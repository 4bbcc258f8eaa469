import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { Observable } from 'rxjs';
import { runInside, surroundings } from './core/held-locks.js';
import { HandlerScope } from './handler-scope.js';
import { lockedHandlerOf } from './locked-method.js';

/**
 * Opens a scope around each call of a handler that is marked `@Locked`, and releases the lock at its end. Registered for
 * the whole application by `RedisLockModule`, and for each handler by `@Locked`, because there are calls that global
 * interceptors do not see; the inner one leaves a call alone that has its scope.
 *
 * @publicApi
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const handler = lockedHandlerOf(context.getHandler());
    if (handler === undefined || hasScope(context)) return next.handle();
    return new Observable((subscriber) => {
      const scope = new HandlerScope(handler, context);
      let over = false;
      const endWith = (pass: () => void, workError?: unknown): void => {
        over = true;
        // An answer that does not wait for the method (a timeout) or that is still being sent (a file) is passed on now.
        if (scope.working || (workError !== undefined && scope.lock === undefined)) scope.depart();
        const passNow = scope.working || scope.streaming || scope.lock === undefined;
        if (passNow) pass();
        scope.end(workError).then(
          () => passNow || pass(),
          (lost: unknown) => passNow || subscriber.error(lost),
        );
      };
      // `handle()` itself is called inside as well: Nest ties the handler's context to that moment.
      const subscription = runInside(scope, () =>
        next.handle().subscribe({
          next: (value) => {
            scope.saw(value);
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

function hasScope(context: ExecutionContext): boolean {
  for (const around of surroundings()) if (around instanceof HandlerScope && around.context === context) return true;
  return false;
}
