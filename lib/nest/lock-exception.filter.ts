import { inspect } from 'node:util';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Inject,
  Logger,
  Optional,
} from '@nestjs/common';
import { EXCEPTION_FILTERS_METADATA } from '@nestjs/common/constants.js';
import { ApplicationConfig, BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { throwError } from 'rxjs';
import { isOfOwnClass, LockClosedError, LockError, LockLostError, messageOf } from '../common/errors.js';
import { type Boundary, boundaryOf } from './boundary.js';
import { prependMetadata } from './decorated-method.js';
import { bodyOf, ErrorResponses, type LockErrorResponse, retryAfterOf } from './error-responses.js';

/** The errors that left a handler of HTTP. Nest and the application's own filters answer them. */
const answered = new WeakSet<object>();

/** The errors that no global filter of the application sees. */
const unseen = new WeakSet<object>();

/** Remembers whether the global filters of the application see the error of a call. */
export function markSeen(error: LockError, isSeen: boolean): void {
  if (isSeen) unseen.delete(error);
  else unseen.add(error);
}

/** Matches the errors that no interceptor of this library has made an HTTP exception of. */
class UnansweredLockError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return error instanceof LockError && !answered.has(error);
  }
}

/** Matches the errors that no global filter of the application sees. */
class UnseenLockError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return error instanceof LockError && unseen.has(error);
  }
}

/**
 * Sends the response for a {@link LockError} that does not leave an HTTP handler: one of a guard, and those of
 * microservices, gateways and GraphQL. RPC and WebSocket: an object with `status`, `code`, `message` and
 * `retryAfterMs`. gRPC: a status code, ABORTED if the lock is busy and UNAVAILABLE if Redis is. GraphQL: an error with
 * `extensions`. Every other caller gets the error itself, such as a package that calls a handler and acknowledges a
 * message unless the handler rejects.
 *
 * `RedisLockModule` registers it for the whole application. An HTTP handler needs no filter: its lock errors are Nest
 * exceptions with a status. The option `http` changes the responses.
 *
 * @publicApi
 */
@Catch(UnansweredLockError)
export class LockExceptionFilter implements ExceptionFilter<LockError> {
  constructor(
    @Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig,
    @Optional() @Inject(HttpAdapterHost) private readonly adapterHost?: HttpAdapterHost,
  ) {}

  catch(error: LockError, host: ArgumentsHost): unknown {
    const boundary = boundaryOf(host);
    if (boundary === undefined) throw error;
    if (boundary === 'http') {
      const base = new BaseExceptionFilter(this.adapterHost?.httpAdapter);
      return base.catch(toHttpError(error, host, this.application, this.adapterHost), host);
    }
    const response = ErrorResponses.of(this.application).of(error);
    log(error, response, boundary);
    if (boundary === 'ws') return replyWebSocket(payloadOf(response), host);
    if (boundary === 'graphql') throw toGraphqlError(error, response);
    return throwError(() => (boundary === 'grpc' ? grpcErrorOf(response) : payloadOf(response)));
  }
}

/**
 * The filter of classes with decorated handlers. Nest tries it before global filters, so it answers only the errors
 * that no global filter sees: those of gateways, and of microservices without `inheritAppConfig`.
 */
@Catch(UnseenLockError)
class HandlerExceptionFilter extends LockExceptionFilter {}

/**
 * Returns what the filters of an HTTP handler get for an error: a Nest exception with its status, and sets
 * `Retry-After`. Mistakes in the program stay as they are, because filters that report errors should report them. So
 * does a program's own subclass, because its filters may look for it.
 */
export function toHttpError(
  error: LockError,
  host: ArgumentsHost,
  application: ApplicationConfig | undefined,
  adapterHost: HttpAdapterHost | undefined,
): Error {
  if (answered.has(error)) return error;
  const response = ErrorResponses.of(application).of(error);
  const isProgram = response.status === 500 || !isOfOwnClass(error);
  const answer = isProgram ? error : new LockHttpException(error, response);
  answered.add(answer);
  if (isProgram) return answer;
  const retryAfter = retryAfterOf(response);
  const reply = host.switchToHttp().getResponse<unknown>();
  const adapter = adapterHost?.httpAdapter;
  if (retryAfter !== undefined && adapter?.isHeadersSent(reply) === false) {
    adapter.setHeader(reply, 'Retry-After', retryAfter);
  }
  return answer;
}

/** What describes the original error, for logs. */
const NOT_FOR_CLIENTS: ReadonlySet<string | symbol> = new Set(['constructor', 'toJSON', inspect.custom]);

/**
 * A lock error as the filters of HTTP handlers get it: a Nest exception with the status and the message for clients. It
 * is an instance of the same lock error classes, and has their fields. Its `cause` is the original error.
 */
class LockHttpException extends HttpException {
  constructor(error: LockError, response: LockErrorResponse) {
    super(bodyOf(response), response.status);
    const { message } = response;
    const sources: object[] = [{ message, cause: error, stack: `${error.name}: ${message}` }];
    for (let each: object = error; each !== Error.prototype; each = Object.getPrototypeOf(each) as object) {
      sources.push(each);
    }
    for (const each of sources.toReversed()) this.take(each);
  }

  /** Takes the fields and the brands of an object. Not enumerable, because filters send Nest exceptions as JSON. */
  private take(source: object): void {
    const properties = Object.getOwnPropertyDescriptors(source);
    for (const key of Reflect.ownKeys(properties)) {
      if (NOT_FOR_CLIENTS.has(key)) continue;
      const property = properties[key as keyof typeof properties];
      Object.defineProperty(this, key, { ...property, enumerable: false, configurable: true });
    }
  }
}

/** Logs what nobody else reports. */
function log(error: LockError, { status }: LockErrorResponse, boundary: Boundary): void {
  const logger = new Logger('RedisLockModule');
  if (status !== 500) {
    // The sender of an event gets no reply.
    if (boundary === 'rpc') logger.warn(error.message);
    return;
  }
  // The engine has logged a lost lock, but not the error of the work.
  const unlogged = error instanceof LockLostError ? error.cause : error;
  if (unlogged === undefined || unlogged instanceof LockClosedError) return;
  logger.error(unlogged instanceof Error ? (unlogged.stack ?? unlogged.message) : messageOf(unlogged));
}

function payloadOf({ code, message, retryAfterMs }: LockErrorResponse): object {
  return { status: 'error', code, message, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** Returns an error that the gRPC server sends with its status. `details` is the message for the client. */
function grpcErrorOf({ grpcStatus, code, message }: LockErrorResponse): object {
  return { code: grpcStatus, details: `${code}: ${message}`, message };
}

function replyWebSocket(payload: object, host: ArgumentsHost): void {
  const client = host
    .switchToWs()
    .getClient<{ emit(event: string, payload: unknown): unknown; send?(data: string): void }>();
  // Socket.IO sockets have an id. Those of `ws` are plain emitters, whose `emit` would not reach the client.
  if ('id' in client || client.send === undefined) client.emit('exception', payload);
  else client.send(JSON.stringify({ event: 'exception', data: payload }));
}

/** HTTP headers as Apollo takes them from an error. Mercurius sends them as JSON. */
class HeaderMap extends Map<string, string> {
  toJSON(): object {
    return Object.fromEntries(this);
  }
}

/**
 * Returns the error that a GraphQL server sends: the same error with the message for clients, with `extensions` and,
 * for Mercurius, `statusCode`. Its `cause` is the original error.
 */
function toGraphqlError(error: LockError, response: LockErrorResponse): LockError {
  const { status, code, message, retryAfterMs } = response;
  const retryAfter = retryAfterOf(response);
  const headers = new HeaderMap(retryAfter === undefined ? [] : [['retry-after', retryAfter]]);
  const extensions = {
    code,
    status,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    // Apollo removes this and uses it for the HTTP response.
    http: { status, headers },
  };
  const properties = { message, stack: `${error.name}: ${message}`, cause: error, extensions, statusCode: status };
  // Filters, plugins and error trackers still find the class and the fields.
  return Object.create(error, Object.getOwnPropertyDescriptors(properties)) as LockError;
}

/** Lets a class with decorated handlers answer their lock errors, after all other filters of the class. */
export function answerErrorsOf(target: object): void {
  prependMetadata(EXCEPTION_FILTERS_METADATA, HandlerExceptionFilter, target.constructor);
}
