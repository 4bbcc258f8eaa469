import { type ArgumentsHost, Catch, type ExceptionFilter, Inject, Logger } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { throwError } from 'rxjs';
import { LockError, type LockErrorCode, LockTimeoutError } from '../core/errors.js';

interface HttpResponse {
  readonly status: number;
  /** The reason phrase, and whether the error's own message may be told: those of bugs are not for the outside. */
  readonly error: string;
  readonly expose: boolean;
}

const INTERNAL: HttpResponse = { status: 500, error: 'Internal Server Error', expose: false };
const UNAVAILABLE: HttpResponse = { status: 503, error: 'Service Unavailable', expose: false };

const HTTP_ANSWERS: Record<LockErrorCode, HttpResponse> = {
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

/** After this time asking again makes sense, where nothing better is known. */
const DEFAULT_RETRY_MS = 1000;

/**
 * Answers a {@link LockError} to the outside: 423 for a busy lock, 503 for an unreachable Redis and 409 for a holder that
 * came too late to a fence, all with `Retry-After`, else 500; to RPC and WebSocket callers its `code`. Registered by
 * `RedisLockModule` and by `@Locked`.
 *
 * To answer differently, put a filter of your own on the handler: `@UseFilters(MyFilter)`.
 *
 * @publicApi
 */
@Catch(LockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  private readonly logger = new Logger('RedisLockModule');

  constructor(@Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost) {}

  catch(error: LockError, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    if (HTTP_ANSWERS[error.code] === INTERNAL) this.logger.error(error.message, error.stack);
    if (type === 'http') return this.answerHttp(error, host);
    if (type === 'rpc') return throwError(() => payloadOf(error));
    if (type === 'ws') return answerSocket(error, host);
    // GraphQL and its like take an error as the answer and format it themselves.
    return error;
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.adapterHost;
    const response = host.switchToHttp().getResponse<unknown>();
    if (httpAdapter.isHeadersSent(response)) return void httpAdapter.end(response);
    const { status, error: phrase, expose } = HTTP_ANSWERS[error.code];
    if (status !== 500) httpAdapter.setHeader(response, 'Retry-After', String(Math.ceil(retryAfterMs(error) / 1000)));
    const message = expose ? error.message : phrase;
    httpAdapter.reply(response, { statusCode: status, code: error.code, message, error: phrase }, status);
  }
}

function answerSocket(error: LockError, host: ArgumentsHost): void {
  const client = host
    .switchToWs()
    .getClient<{ emit(event: string, payload: unknown): unknown; send?(data: string): void }>();
  const payload = payloadOf(error);
  // Socket.IO's sockets have an id; those of `ws` are plain emitters, whose events stay on this side.
  if ('id' in client || client.send === undefined) client.emit('exception', payload);
  else client.send(JSON.stringify({ event: 'exception', data: payload }));
}

function payloadOf(error: LockError) {
  const { status, error: phrase, expose } = HTTP_ANSWERS[error.code];
  const payload = { status: 'error', code: error.code, message: expose ? error.message : phrase };
  return status === 500 ? payload : { ...payload, retryAfterMs: retryAfterMs(error) };
}

/** At the latest when the lease in the way runs out; a holder that renews it may well be done much sooner. */
function retryAfterMs(error: LockError): number {
  const remainingMs = error instanceof LockTimeoutError ? error.remainingMs : undefined;
  return remainingMs === undefined || !Number.isFinite(remainingMs)
    ? DEFAULT_RETRY_MS
    : Math.max(1, Math.ceil(remainingMs));
}
