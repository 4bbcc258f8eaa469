import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { SSE_METADATA } from '@nestjs/common/constants.js';
import type { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { catchError, type Observable, throwError } from 'rxjs';
import { isOfOwnClass, LockError } from '../core/errors.js';
import { ErrorResponses, retryAfterOf } from './error-responses.js';
import { LockHttpException } from './lock-http-exception.js';
import { LockedInterceptor } from './locked.interceptor.js';

/**
 * The first interceptor of an application. It sees the errors of all handlers, including those that call a locked
 * service. Filters of HTTP handlers get lock errors as Nest exceptions, and their responses have `Retry-After`.
 */
export class ApplicationInterceptor extends LockedInterceptor {
  constructor(
    private readonly config: ApplicationConfig,
    private readonly adapterHost: HttpAdapterHost,
  ) {
    super(config);
  }

  override intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const response = super.intercept(context, next);
    if (context.getType() !== 'http') return response;
    return response.pipe(catchError((error: unknown) => throwError(() => this.toHttp(error, context))));
  }

  /**
   * Returns what the filters get for an error. Mistakes in the program and errors from outside this library stay as
   * they are. They are a 500, and filters that report errors should report them.
   */
  private toHttp(error: unknown, context: ExecutionContext): unknown {
    // A program's own subclass stays as it is, because its filters may look for it.
    if (!(error instanceof LockError) || !isOfOwnClass(error)) return error;
    const responses = ErrorResponses.of(this.config);
    const response = responses.responseTo(error);
    if (response.status === 500) return isSse(context) ? maskedError(error, responses) : error;
    const { httpAdapter } = this.adapterHost;
    const retryAfter = retryAfterOf(response);
    const reply = context.switchToHttp().getResponse<unknown>();
    if (retryAfter !== undefined && !httpAdapter.isHeadersSent(reply)) {
      httpAdapter.setHeader(reply, 'Retry-After', retryAfter);
    }
    return new LockHttpException(error, response);
  }
}

function isSse(context: ExecutionContext): boolean {
  return Reflect.getMetadata(SSE_METADATA, context.getHandler()) === true;
}

/** Returns the error that an event contains. Nest sends its message to the client, and no filter gets it. */
function maskedError(error: LockError, responses: ErrorResponses): Error {
  return new Error(responses.loggedResponseTo(error).message, { cause: error });
}
