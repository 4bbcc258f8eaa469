import type { CallHandler, ExecutionContext } from '@nestjs/common';
import type { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { catchError, type Observable, throwError } from 'rxjs';
import { isOfOwnClass } from '../core/errors.js';
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
    const responses = ErrorResponses.of(this.config);
    // A program's own subclass stays as it is, because its filters may look for it.
    if (!responses.handles(error) || !isOfOwnClass(error)) return error;
    const response = responses.responseTo(error);
    if (response.status === 500) return error;
    const { httpAdapter } = this.adapterHost;
    const retryAfter = retryAfterOf(response);
    const reply = context.switchToHttp().getResponse<unknown>();
    if (retryAfter !== undefined && !httpAdapter.isHeadersSent(reply)) {
      httpAdapter.setHeader(reply, 'Retry-After', retryAfter);
    }
    return new LockHttpException(error, response);
  }
}
