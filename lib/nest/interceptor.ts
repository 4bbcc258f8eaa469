import {
  type CallHandler,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  InternalServerErrorException,
  Logger,
  type NestInterceptor,
  Optional,
} from '@nestjs/common';
import { SSE_METADATA } from '@nestjs/common/constants.js';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { catchError, Observable } from 'rxjs';
import { LockError } from '../common/errors.js';
import { boundaryOf } from './boundary.js';
import { type DecoratedMethod, decoratedMethodOf } from './decorated-method.js';
import { HandlerScope } from './handler-scope.js';
import { markSeen, toHttpError } from './lock-exception.filter.js';

/**
 * Holds the lock of a `@Locked` handler until the response is complete, interceptors included, and keeps the locks of a
 * `@LockScope` handler equally long. Both decorators register it for their handlers, and `RedisLockModule` for the
 * whole application. The outermost one releases the locks.
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor {
  constructor(
    @Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig,
    @Optional() @Inject(HttpAdapterHost) private readonly adapterHost?: HttpAdapterHost,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const method = decoratedMethodOf(context.getHandler());
    if (method !== undefined && HandlerScope.around(context) === undefined) next = inScope(method, context, next);
    return next.handle().pipe(catchError((error: unknown) => this.onError(error, context)));
  }

  /** Throws what the filters of the handler get for an error. */
  private onError(error: unknown, context: ExecutionContext): never {
    if (!(error instanceof LockError)) throw error;
    if (boundaryOf(context) === 'http') {
      const answer = toHttpError(error, context, this.application, this.adapterHost);
      throw isSse(context) ? maskedError(answer) : answer;
    }
    // The outermost interceptor is the last to say so.
    markSeen(error, this.isSeenByGlobalFilters(context));
    throw error;
  }

  /** Whether the application's global filters also see an error that leaves here. */
  protected isSeenByGlobalFilters(_context: ExecutionContext): boolean {
    return false;
  }
}

/** The interceptor of the whole application. It also sees the errors of handlers that call a locked service. */
@Injectable()
export class ApplicationInterceptor extends LockedInterceptor {
  protected override isSeenByGlobalFilters(context: ExecutionContext): boolean {
    // Nest has global interceptors for gateways, but no global filters.
    return context.getType() !== 'ws';
  }
}

function inScope(method: DecoratedMethod, context: ExecutionContext, next: CallHandler): CallHandler {
  const handle = (): Observable<unknown> =>
    new Observable((subscriber) => {
      const scope = new HandlerScope(method, context);
      const fail = (lost: unknown): void => subscriber.error(lost);
      // Nest binds the handler's async context when `handle()` is called, so that call is also inside the scope.
      const subscription = scope.run(() =>
        next.handle().subscribe({
          next: (value) => {
            scope.onValue(value);
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
  return { handle };
}

function isSse(context: ExecutionContext): boolean {
  return Reflect.getMetadata(SSE_METADATA, context.getHandler()) === true;
}

/** Returns what an `@Sse` handler fails with. Nest 10 and 11 send the message of every error to the client. */
function maskedError(error: Error): HttpException {
  if (error instanceof HttpException) return error;
  // No filter sees the error, because Nest has sent the status before.
  new Logger('RedisLockModule').error(error.stack ?? error.message);
  return new InternalServerErrorException(undefined, { cause: error });
}
