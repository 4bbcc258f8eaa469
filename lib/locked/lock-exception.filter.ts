import { type ArgumentsHost, Catch, type ExceptionFilter, Inject, Logger } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { throwError } from 'rxjs';
import { LockError, type LockErrorCode, LockLostError, LockTimeoutError, messageOf } from '../core/errors.js';

interface HttpResponse {
  readonly status: number;
  /** The reason phrase. */
  readonly error: string;
  /** True if clients get the error's own message. */
  readonly expose: boolean;
}

const INTERNAL: HttpResponse = { status: 500, error: 'Internal Server Error', expose: false };
const UNAVAILABLE: HttpResponse = { status: 503, error: 'Service Unavailable', expose: false };

const HTTP_RESPONSES: Record<LockErrorCode, HttpResponse> = {
  LOCK_TIMEOUT: { status: 423, error: 'Locked', expose: true },
  LOCK_UNAVAILABLE: UNAVAILABLE,
  LOCK_REPLICATION: UNAVAILABLE,
  LOCK_CLOSED: UNAVAILABLE,
  LOCK_LOST: INTERNAL,
  LOCK_KEY: INTERNAL,
  LOCK_REENTRY: INTERNAL,
  LOCK_CONFIG: INTERNAL,
  LOCK_STALE: { status: 409, error: 'Conflict', expose: false },
};

/** For `Retry-After`, if the error does not say when the lease ends. */
const DEFAULT_RETRY_MS = 1000;

/**
 * Sends the response for a {@link LockError}. HTTP: 423 if the lock is busy, 503 if Redis is unavailable, 409 if a
 * fence refused an old token, each with `Retry-After`, and 500 for other errors. RPC and WebSocket: an error with the
 * `code` and with `retryAfterMs`. `RedisLockModule` and `@Locked` register it.
 *
 * For another response, put your own filter on the handler: `@UseFilters(MyFilter)`.
 *
 * @publicApi
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  private readonly logger = new Logger('RedisLockModule');

  constructor(@Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost) {}

  catch(error: LockError, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    const unlogged = unloggedIn(error);
    if (unlogged !== undefined && HTTP_RESPONSES[error.code] === INTERNAL)
      this.logger.error(messageOf(unlogged), unlogged instanceof Error ? unlogged.stack : undefined);
    if (type === 'http') return this.replyHttp(error, host);
    if (type === 'rpc') return throwError(() => payloadOf(error));
    if (type === 'ws') return replyWebSocket(error, host);
    // GraphQL formats a returned error itself.
    return error;
  }

  private replyHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.adapterHost;
    const response = host.switchToHttp().getResponse<unknown>();
    if (httpAdapter.isHeadersSent(response)) return void httpAdapter.end(response);
    const { status, error: phrase, expose } = HTTP_RESPONSES[error.code];
    if (status !== 500) httpAdapter.setHeader(response, 'Retry-After', String(Math.ceil(retryAfterMs(error) / 1000)));
    const message = expose ? publicMessageOf(error) : phrase;
    httpAdapter.reply(response, { statusCode: status, code: error.code, message, error: phrase }, status);
  }
}

/** Returns the message for clients, which may not learn the name of a host. */
function publicMessageOf(error: LockError): string {
  return error instanceof LockTimeoutError ? error.publicMessage : error.message;
}

/** Returns what to log of an error. The engine has logged a lost lock, but not the error of the work under it. */
function unloggedIn(error: LockError): unknown {
  if (!(error instanceof LockLostError)) return error;
  // Work that ends because of the lock's signal throws the loss itself.
  return error.cause instanceof LockLostError ? undefined : error.cause;
}

function replyWebSocket(error: LockError, host: ArgumentsHost): void {
  const client = host
    .switchToWs()
    .getClient<{ emit(event: string, payload: unknown): unknown; send?(data: string): void }>();
  const payload = payloadOf(error);
  // Sockets of Socket.IO have an id. Those of `ws` are plain emitters: `emit` would not reach the client.
  if ('id' in client || client.send === undefined) client.emit('exception', payload);
  else client.send(JSON.stringify({ event: 'exception', data: payload }));
}

function payloadOf(error: LockError) {
  const { status, error: phrase, expose } = HTTP_RESPONSES[error.code];
  const payload = { status: 'error', code: error.code, message: expose ? publicMessageOf(error) : phrase };
  return status === 500 ? payload : { ...payload, retryAfterMs: retryAfterMs(error) };
}

/** Returns the rest of the holder's lease. The lock can be free sooner. */
function retryAfterMs(error: LockError): number {
  const remainingMs = error instanceof LockTimeoutError ? error.remainingMs : undefined;
  return remainingMs === undefined || !Number.isFinite(remainingMs)
    ? DEFAULT_RETRY_MS
    : Math.max(1, Math.ceil(remainingMs));
}
