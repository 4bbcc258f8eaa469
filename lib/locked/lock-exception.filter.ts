import { type ArgumentsHost, Catch, type ExceptionFilter, Inject, Logger, Optional } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { throwError } from 'rxjs';
import { LockError } from '../core/errors.js';
import { bodyOf, ErrorResponses, type LockErrorResponse, retryAfterOf } from './error-responses.js';
import { toGraphqlError } from './graphql-error.js';

/**
 * Sends the response for a {@link LockError}. HTTP: 423 if the lock is busy, 503 if Redis is unavailable, 409 if a
 * fence refused an old token, each with `Retry-After`, 400 if the client sent no usable value for the key, and 500 for
 * other errors. RPC and WebSocket: an error with the `code` and with `retryAfterMs`.
 *
 * `RedisLockModule` registers it as the last filter of the application. Every filter of the application that catches
 * the error comes before it, wherever it is registered. The option `http` changes the responses.
 *
 * @publicApi
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig,
  ) {}

  catch(error: LockError, host: ArgumentsHost): unknown {
    // A field resolver has converted and logged the error.
    if (Object.hasOwn(error, 'extensions')) return error;
    const type = host.getType<string>();
    const response = ErrorResponses.of(this.application).loggedResponseTo(error);
    // The sender of an event gets no reply.
    if (type === 'rpc' && response.byClient) new Logger('RedisLockModule').warn(error.message);
    if (type === 'http') return this.replyHttp(error, response, host);
    if (type === 'rpc') return throwError(() => payloadOf(error, response));
    if (type === 'ws') return replyWebSocket(payloadOf(error, response), host);
    // A GraphQL server sends a returned error like one that was thrown.
    return type === 'graphql' ? toGraphqlError(error, response) : error;
  }

  private replyHttp(error: LockError, response: LockErrorResponse, host: ArgumentsHost): void {
    const { httpAdapter } = this.adapterHost;
    const retryAfter = retryAfterOf(response);
    const reply = host.switchToHttp().getResponse<unknown>();
    if (httpAdapter.isHeadersSent(reply)) return void httpAdapter.end(reply);
    if (retryAfter !== undefined) httpAdapter.setHeader(reply, 'Retry-After', retryAfter);
    httpAdapter.reply(reply, bodyOf(error, response), response.status);
  }
}

const unseen = new WeakSet<LockError>();

/** Marks the error of a call as one that no global filter of the application sees. */
export function markUnseen(error: LockError): void {
  unseen.add(error);
}

/** Matches the errors that no global filter of the application sees. */
class UnseenLockError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return error instanceof LockError && unseen.has(error);
  }
}

/**
 * The filter of classes with `@Locked` handlers. Nest tries it before global filters, so it handles only errors that no
 * global filter sees: those from gateways, and from microservices without `inheritAppConfig`.
 */
@Catch(UnseenLockError)
export class UnseenLockExceptionFilter extends LockExceptionFilter {}

function replyWebSocket(payload: object, host: ArgumentsHost): void {
  const client = host
    .switchToWs()
    .getClient<{ emit(event: string, payload: unknown): unknown; send?(data: string): void }>();
  // Socket.IO sockets have an id. Those of `ws` are plain emitters, whose `emit` would not reach the client.
  if ('id' in client || client.send === undefined) client.emit('exception', payload);
  else client.send(JSON.stringify({ event: 'exception', data: payload }));
}

function payloadOf({ code }: LockError, { message, retryAfterMs }: LockErrorResponse) {
  return { status: 'error', code, message, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
