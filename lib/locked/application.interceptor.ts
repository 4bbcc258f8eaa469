import type { CallHandler, ExecutionContext } from '@nestjs/common';
import type { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { catchError, type Observable, throwError } from 'rxjs';
import { LockError } from '../core/errors.js';
import { ErrorResponses, retryAfterOf } from './error-responses.js';
import { toHttpException } from './lock-http-exception.js';
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

  private toHttp(error: unknown, context: ExecutionContext): unknown {
    const responses = ErrorResponses.of(this.config);
    const exception = toHttpException(error, responses);
    if (exception === error || !(error instanceof LockError)) return exception;
    const { httpAdapter } = this.adapterHost;
    const retryAfter = retryAfterOf(responses.responseTo(error));
    const reply = context.switchToHttp().getResponse<unknown>();
    if (retryAfter !== undefined && !httpAdapter.isHeadersSent(reply)) {
      httpAdapter.setHeader(reply, 'Retry-After', retryAfter);
    }
    return exception;
  }
}
