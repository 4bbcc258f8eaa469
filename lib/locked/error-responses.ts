import { STATUS_CODES } from 'node:http';
import { Logger } from '@nestjs/common';
import type { ApplicationConfig } from '@nestjs/core';
import {
  LockClosedError,
  LockConfigError,
  type LockError,
  type LockErrorCode,
  LockKeyError,
  LockLostError,
  messageOf,
} from '../core/errors.js';
import type { LockEngine } from '../core/lock-engine.js';
import { HTTP } from '../options/option-table.js';
import type { HttpOptions } from '../options/redis-lock.options.js';

/** What a caller gets for a lock error. */
export interface LockErrorResponse {
  /** The HTTP status. */
  readonly status: number;
  /** The reason phrase of the status. */
  readonly phrase: string;
  /** The message for the caller, without servers, holders or code. */
  readonly message: string;
  /** When to try again, in milliseconds. Undefined if a repeated call would also fail. */
  readonly retryAfterMs: number | undefined;
  /** True if the program is to blame, so that the error is logged with its stack. */
  readonly logged: boolean;
  /** True if the client is to blame. */
  readonly byClient: boolean;
}

interface Kind {
  readonly status: number;
  /** True if the same call can succeed later. */
  readonly transient: boolean;
}

const PROGRAM: Kind = { status: 500, transient: false };
const CLIENT: Kind = { status: 400, transient: false };
const UNAVAILABLE: Kind = { status: 503, transient: true };

const KINDS: Readonly<Record<LockErrorCode, Kind>> = {
  LOCK_TIMEOUT: { status: 423, transient: true },
  LOCK_UNAVAILABLE: UNAVAILABLE,
  LOCK_REPLICATION: UNAVAILABLE,
  LOCK_CLOSED: UNAVAILABLE,
  LOCK_LOST: PROGRAM,
  LOCK_NOT_HELD: PROGRAM,
  LOCK_KEY: PROGRAM,
  LOCK_REENTRY: PROGRAM,
  LOCK_ORDER: PROGRAM,
  LOCK_CONFIG: PROGRAM,
  LOCK_STALE: { status: 409, transient: true },
};

const known = new WeakMap<object, ErrorResponses>();

/** What the callers of one application get for lock errors, whichever of its module instances throws them. */
export class ErrorResponses {
  private readonly options: { -readonly [K in keyof HttpOptions]: HttpOptions[K] } = {};

  /** Returns the responses of an application, or of one of its engines. Without either, returns the defaults. */
  static of(owner: ApplicationConfig | LockEngine | undefined): ErrorResponses {
    const found = owner && known.get(owner);
    if (found !== undefined) return found;
    const created = new ErrorResponses();
    if (owner !== undefined) known.set(owner, created);
    return created;
  }

  /**
   * Adds the options of one module instance, and its engine.
   *
   * @throws LockConfigError if another instance has a different value for one of the options.
   */
  add({ status, retryAfterMs }: HttpOptions, engine: LockEngine): void {
    known.set(engine, this);
    checkEqual('http.retryAfterMs', this.options.retryAfterMs, retryAfterMs);
    for (const code of Object.keys(status ?? {}) as LockErrorCode[]) {
      checkEqual(`http.status.${code}`, this.options.status?.[code], status?.[code]);
    }
    this.options.retryAfterMs ??= retryAfterMs;
    this.options.status = { ...this.options.status, ...status };
  }

  /** Returns what a caller gets for an error, and logs the error if the program is to blame. */
  loggedResponseTo(error: LockError): LockErrorResponse {
    const response = this.responseTo(error);
    if (response.logged) logUnexpected(error);
    return response;
  }

  /** Returns what a caller gets for an error. */
  responseTo(error: LockError): LockErrorResponse {
    const { status: statuses, retryAfterMs = HTTP.retryAfterMs.default } = this.options;
    const byClient = isByClient(error);
    const kind = byClient ? CLIENT : KINDS[error.code];
    // A value from the program itself stays a 500.
    const isProgramsKey = error.code === 'LOCK_KEY' && !byClient;
    const status = (isProgramsKey ? undefined : statuses?.[error.code]) ?? kind.status;
    const phrase = STATUS_CODES[status] ?? 'Error';
    return {
      status,
      phrase,
      message: messageFor(error) ?? phrase,
      retryAfterMs: kind.transient ? retryAfterMs : undefined,
      logged: kind === PROGRAM,
      byClient,
    };
  }
}

/** Logs an error that the program is to blame for. The engine has logged a lost lock, but not the error of the work. */
function logUnexpected(error: LockError): void {
  const unlogged = error instanceof LockLostError ? error.cause : error;
  // The lock was lost because a shutdown stopped waiting for it.
  if (unlogged === undefined || unlogged instanceof LockClosedError) return;
  new Logger('RedisLockModule').error(messageOf(unlogged), unlogged instanceof Error ? unlogged.stack : undefined);
}

/** Returns whether the client of a handler sent the value that cannot form a key. */
function isByClient(error: LockError): error is LockKeyError {
  return error instanceof LockKeyError && error.byClient;
}

/** Returns the body of an HTTP response. */
export function bodyOf({ code }: LockError, { status, phrase, message }: LockErrorResponse): object {
  return { statusCode: status, code, message, error: phrase };
}

/** Returns the `Retry-After` header of a response, in seconds. */
export function retryAfterOf({ retryAfterMs }: LockErrorResponse): string | undefined {
  return retryAfterMs === undefined ? undefined : String(Math.ceil(retryAfterMs / 1000));
}

/** Returns what a caller may know about an error. */
function messageFor(error: LockError): string | undefined {
  if (error.code === 'LOCK_TIMEOUT') return `${error.resource ?? 'It'} is locked by others.`;
  if (!isByClient(error)) return undefined;
  const name = error.placeholder?.text.replace(/^<(?:\.\.\.)?|>$/g, '');
  return `The value of '${name}' is missing or invalid.`;
}

function checkEqual(option: string, other: number | undefined, given: number | undefined): void {
  if (other === undefined || given === undefined || other === given) return;
  throw new LockConfigError(
    `${option} is ${given}, and ${other} in another RedisLockModule of this application. ` +
      'A client gets one response for one error; use the same value, or set it in one of them.',
  );
}
