import { STATUS_CODES } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { ApplicationConfig } from '@nestjs/core';
import {
  LockConfigError,
  LockError,
  type LockErrorCode,
  LockKeyError,
  LockLostError,
  LockUnavailableError,
} from '../common/errors.js';
import { HTTP } from '../options/option-table.js';
import type { HttpOptions } from '../options/redis-lock.options.js';

/** What a client gets for a lock error. */
export interface LockErrorResponse {
  readonly code: LockErrorCode;
  /** The HTTP status. */
  readonly status: number;
  /** The status of gRPC. */
  readonly grpcStatus: number;
  /** The message for the client. Names neither servers nor holders. */
  readonly message: string;
  /** When to try again, in milliseconds. Undefined if a repeated call would fail again. */
  readonly retryAfterMs: number | undefined;
}

interface Kind {
  readonly status: number;
  /** One of the status codes of gRPC, https://grpc.io/docs/guides/status-codes/. */
  readonly grpcStatus: number;
  /** True if the same call can succeed later. */
  readonly isTransient: boolean;
}

// INTERNAL, INVALID_ARGUMENT, UNAVAILABLE, ABORTED.
const PROGRAM: Kind = { status: 500, grpcStatus: 13, isTransient: false };
const CLIENT: Kind = { status: 400, grpcStatus: 3, isTransient: false };
const UNAVAILABLE: Kind = { status: 503, grpcStatus: 14, isTransient: true };
const BUSY: Kind = { status: 423, grpcStatus: 10, isTransient: true };
const OVER: Kind = { status: 409, grpcStatus: 10, isTransient: false };
const STALE: Kind = { status: 409, grpcStatus: 10, isTransient: true };

/** The errors that a client can do something about. All others are mistakes in the program. */
const KINDS: Readonly<Partial<Record<LockErrorCode, Kind>>> = {
  LOCK_TIMEOUT: BUSY,
  LOCK_UNAVAILABLE: UNAVAILABLE,
  LOCK_REPLICATION: UNAVAILABLE,
  LOCK_CLOSED: UNAVAILABLE,
  LOCK_STALE: STALE,
};

const known = new WeakMap<ApplicationConfig, ErrorResponses>();

/** What the clients of one application get for lock errors, whichever of its module instances throws them. */
export class ErrorResponses {
  private options: HttpOptions | undefined;

  /** Returns the responses of an application. Without one, returns the defaults. */
  static of(application: ApplicationConfig | undefined): ErrorResponses {
    const responses = (application && known.get(application)) ?? new ErrorResponses();
    if (application !== undefined) known.set(application, responses);
    return responses;
  }

  /**
   * Adds the options of one module instance.
   *
   * @throws LockConfigError if another instance has different options.
   */
  add(options: HttpOptions | undefined): void {
    if (options === undefined) return;
    if (this.options !== undefined && !isDeepStrictEqual(this.options, options))
      throw new LockConfigError(
        'http differs in two RedisLockModules of this application. A client gets one response for one error; ' +
          'use the same value, or set it in one of them.',
      );
    this.options = options;
  }

  /** Returns what a client gets for an error. */
  of(error: LockError): LockErrorResponse {
    const { code } = error;
    const isClientsKey = error instanceof LockKeyError && error.byClient;
    const kind = isClientsKey ? CLIENT : isClientsTicket(error) ? OVER : (KINDS[code] ?? PROGRAM);
    // A key that the program itself got wrong stays a 500.
    const isProgramsKey = code === 'LOCK_KEY' && !isClientsKey;
    // A wrong password stays wrong.
    const isPermanent = error instanceof LockUnavailableError && error.permanent;
    const { status: statuses, retryAfterMs = HTTP.retryAfterMs.default } = this.options ?? {};
    const status = (isProgramsKey ? undefined : statuses?.[code]) ?? kind.status;
    return {
      code,
      status,
      grpcStatus: kind.grpcStatus,
      message: messageFor(error, isClientsKey) ?? STATUS_CODES[status] ?? 'Error',
      retryAfterMs: kind.isTransient && !isPermanent ? retryAfterMs : undefined,
    };
  }
}

/** Returns the `Retry-After` header of a response, in whole seconds. */
export function retryAfterOf({ retryAfterMs }: LockErrorResponse): string | undefined {
  return retryAfterMs === undefined ? undefined : String(Math.ceil(retryAfterMs / 1000));
}

/** Returns the body of an HTTP response. */
export function bodyOf({ status, code, message }: LockErrorResponse): object {
  return { statusCode: status, code, message, error: STATUS_CODES[status] ?? 'Error' };
}

/** Returns what a client may know about an error. Undefined for no more than its status. */
function messageFor(error: LockError, isClientsKey: boolean): string | undefined {
  if (isClientsTicket(error)) return `The ticket of ${error.resource ?? 'the lock'} is over.`;
  if (error.code === 'LOCK_TIMEOUT') return `${error.resource ?? 'It'} is locked by others.`;
  if (!isClientsKey || !(error instanceof LockKeyError)) return undefined;
  if (error.placeholder === undefined) return 'The ticket is missing or invalid.';
  const name = error.placeholder.text.replace(/^<(?:\.\.\.)?|>$/g, '');
  return `The value of '${name}' is missing or invalid.`;
}

function isClientsTicket(error: LockError): boolean {
  return error instanceof LockLostError && error.byClient;
}
