import { inspect, type InspectOptions } from 'node:util';
import { branded, brandOf } from './brand.js';
import { kindOf } from './format-value.js';
import { inspectFields } from './inspect-fields.js';

/** All error codes. */
export const LOCK_ERROR_CODES = [
  'LOCK_TIMEOUT',
  'LOCK_UNAVAILABLE',
  'LOCK_REPLICATION',
  'LOCK_CLOSED',
  'LOCK_STALE',
  'LOCK_LOST',
  'LOCK_NOT_HELD',
  'LOCK_KEY',
  'LOCK_REENTRY',
  'LOCK_CONFIG',
] as const;

/** The stable `code` of a {@link LockError}. The exception filter maps codes to HTTP, RPC and WebSocket errors. */
export type LockErrorCode = (typeof LOCK_ERROR_CODES)[number];

/** The optional fields of every {@link LockError}. */
export interface LockErrorDetails {
  /** The resource that the caller named, `goods:300`. */
  readonly resource?: string;
  /** The time from the call to the error, in milliseconds. */
  readonly elapsedMs?: number;
  /** The error or the reason that led to this error. */
  readonly cause?: unknown;
}

/** Returns what `make` returns. The errors that `make` creates have no stack, which would take most of the time. */
export function withoutStack<T>(make: () => T): T {
  const { stackTraceLimit } = Error;
  // If the property is frozen, an assignment would throw.
  Reflect.set(Error, 'stackTraceLimit', 0);
  try {
    return make();
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/**
 * Gives an error of a request the stack of the code that awaits the request. Call it where the wait ends, in an async
 * function or in a reaction to its promise, because V8 knows there who awaits the result. Does nothing to an error that
 * is not made for one call, such as that of a lost lock.
 *
 * @param signal the caller's. If it has aborted, the error is its reason, and stays as it is.
 */
export function nameCaller(error: unknown, signal?: AbortSignal): void {
  if (signal?.aborted === true || !(error instanceof LockError) || error instanceof LockLostError) return;
  Error.captureStackTrace(error, nameCaller);
}

const LONGEST_MESSAGE = 1_000;

/**
 * Returns the message of an error, or the text of anything else that was thrown: at most about 1,000 characters. Never
 * throws.
 */
export function messageOf(error: unknown): string {
  try {
    // Not `instanceof Error`, because errors may come from another realm, such as Jest's.
    const shaped = typeof error === 'object' && error !== null && 'message' in error;
    // A host with several addresses has an error for each, and no message of its own.
    const several =
      shaped && error.message === '' && 'errors' in error && Array.isArray(error.errors) ? error.errors : [];
    const text = several.length > 0 ? several.map(messageOf).join(', ') : String(shaped ? error.message : error);
    return text.length <= LONGEST_MESSAGE ? text : `${text.slice(0, LONGEST_MESSAGE)}…`;
  } catch {
    return kindOf(error);
  }
}

/** Gives an error its name, and an `instanceof` that works across the module formats of this package. */
function named(name: string) {
  return (target: abstract new (...args: never[]) => LockError): void => {
    Object.defineProperty(target.prototype, 'name', { value: name, configurable: true, writable: true });
    branded(name)(target);
  };
}

/**
 * The base class of all errors of this library. `instanceof` works for both module formats in one process.
 *
 * @publicApi
 */
@named('LockError')
export abstract class LockError extends Error {
  /** Identifies the kind of error. Stable across versions. */
  abstract readonly code: LockErrorCode;
  /** The resource that the caller named. Undefined if the error is not about one resource. */
  readonly resource: string | undefined;
  /** The time from the call to the error, in milliseconds. Undefined if the call did not wait. */
  readonly elapsedMs: number | undefined;

  constructor(message: string, details: LockErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.resource = details.resource;
    this.elapsedMs = details.elapsedMs;
  }

  /**
   * Returns what logs show of the error: its name, its message, its fields in whole milliseconds, and its cause's
   * message. It may name holders and servers, so do not send it to clients.
   */
  toJSON(): object {
    const cause = this.cause === undefined ? undefined : messageOf(this.cause);
    return { name: this.name, message: this.message, ...this.shownFields(), cause };
  }

  /** Shows the stack, the fields of {@link toJSON}, and the cause with its stack. @internal */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const shown = `${this.stack ?? `${this.name}: ${this.message}`} ${inspectFields(this.shownFields(), options)}`;
    if (this.cause === undefined) return shown;
    // The errors of clients have their commands, with keys and arguments.
    const cause = inspect(this.cause, { ...options, depth: 0 }).replaceAll('\n', '\n  ');
    return `${shown}\n  [cause]: ${cause}`;
  }

  private shownFields(): object {
    const shown: Record<string, unknown> = { code: this.code };
    for (const [name, value] of Object.entries(this)) {
      if (name === 'publicMessage') continue;
      if (typeof value === 'number') shown[name] = Math.round(value);
      else if (typeof value === 'string' || typeof value === 'boolean') shown[name] = value;
    }
    return shown;
  }

  /** What a GraphQL server adds to the error for clients. */
  get extensions(): { readonly code: LockErrorCode } {
    return { code: this.code };
  }
}

/** Returns whether an error's class belongs to this library, and is not the program's own subclass. */
export function isOfOwnClass(error: LockError): boolean {
  return Object.hasOwn(Object.getPrototypeOf(error) as object, brandOf(error.name));
}

/** The fields that an error has in addition to those of every lock error. All are optional. */
type DetailsOf<E extends LockError> = { readonly [K in Exclude<keyof E, keyof LockError>]?: E[K] | undefined };

/**
 * The optional fields of a {@link LockTimeoutError}. Default: false for those that are boolean, and the message for
 * `publicMessage`.
 */
export type LockTimeoutDetails = LockErrorDetails & DetailsOf<LockTimeoutError>;

/**
 * Thrown if other callers held the lock until `waitMs` had elapsed, or if more than `maxWaiting` callers of this module
 * instance would wait for it. The store works, but the resource is busy.
 *
 * @publicApi
 */
@named('LockTimeoutError')
export class LockTimeoutError extends LockError {
  readonly code = 'LOCK_TIMEOUT';
  /**
   * The remaining lease of the holder, in milliseconds, from the store's last reply. The lock is free after this time
   * if the holder does not renew it. Undefined if the store does not know it.
   */
  readonly remainingMs: number | undefined;
  /**
   * The `identity` of the module instance that held the lock at the store's last reply, such as `api-7f9c-31`, or of
   * one of those that share it. Undefined if the store does not know it.
   */
  readonly heldBy: string | undefined;
  /**
   * How long that instance has had the lock, in milliseconds. Its callers may have passed the lock on meanwhile.
   * Undefined if the store does not know the time, as with a shared lock.
   */
  readonly heldForMs: number | undefined;
  /** How many holders share the lock. Undefined for an exclusive lock, and if the store does not know the number. */
  readonly holderCount: number | undefined;
  /** True if the holder is this module instance. */
  readonly isOwn: boolean;
  /** The message without the holder's identity, which often names a host. Our filter sends a shorter one to clients. */
  readonly publicMessage: string;
  /** How many other callers of this module instance waited for the lock. Undefined if it is not known. */
  readonly waitingHere: number | undefined;
  /**
   * How many entries were ahead of this module instance in the store's queue, at the store's last reply. All callers of
   * an instance that want a lock exclusively have one entry. Undefined if it is not known.
   */
  readonly queuedAhead: number | undefined;
  /** True if the call was refused immediately, because `maxWaiting` callers of this module instance already waited. */
  readonly isQueueFull: boolean;

  constructor(message: string, details: LockTimeoutDetails = {}) {
    super(message, details);
    this.remainingMs = details.remainingMs;
    this.heldBy = details.heldBy;
    this.heldForMs = details.heldForMs;
    this.holderCount = details.holderCount;
    this.isOwn = details.isOwn ?? false;
    this.publicMessage = details.publicMessage ?? message;
    this.waitingHere = details.waitingHere;
    this.queuedAhead = details.queuedAhead;
    this.isQueueFull = details.isQueueFull ?? false;
  }
}

/** The optional fields of a {@link LockLostError}. `byClient` is false by default. */
export type LockLostDetails = LockErrorDetails & DetailsOf<LockLostError>;

/**
 * Thrown if the lock was lost before it was released. Its lease or `maxHoldMs` has elapsed, its key was deleted or
 * belongs to another holder, it was released by force, or the application has shut down. Another holder may have
 * written meanwhile. `assertHeld()` and `extend()` also throw it after `release()`. `cause` is the error of the work
 * under the lock, if the work also failed.
 *
 * @publicApi
 */
@named('LockLostError')
export class LockLostError extends LockError {
  readonly code = 'LOCK_LOST';
  /** True if a ticket of `Lock.detach()` is over, which came with the request of a client. HTTP responds with 409. */
  readonly byClient: boolean;

  constructor(message: string, details: LockLostDetails = {}) {
    super(message, details);
    this.byClient = details.byClient ?? false;
  }
}

/**
 * Thrown by `LockService.assertHeld()` if the caller does not run under the lock, or only shares it. This is a
 * programming error, because the work was called without the lock that it needs.
 *
 * @publicApi
 */
@named('LockNotHeldError')
export class LockNotHeldError extends LockError {
  readonly code = 'LOCK_NOT_HELD';
}

/** The optional fields of a {@link LockUnavailableError}. `permanent` is false by default. */
export type LockUnavailableDetails = LockErrorDetails & DetailsOf<LockUnavailableError>;

/**
 * Thrown if the store sent no usable reply. Redis is down, unreachable, silent for 1 s, read-only or out of memory, or
 * it refuses scripts. Also thrown if the request could not be sent in time. `cause` is the store's error. The lock is
 * never granted in this case.
 *
 * @publicApi
 */
@named('LockUnavailableError')
export class LockUnavailableError extends LockError {
  readonly code: 'LOCK_UNAVAILABLE' | 'LOCK_REPLICATION' = 'LOCK_UNAVAILABLE';
  /**
   * True if a retry cannot succeed: missing permissions, scripts that are not allowed, a key that holds another type.
   * Such an error rejects waiting callers immediately.
   */
  readonly permanent: boolean;
  /**
   * The error code with which the server refused the request: `NOPERM`, `READONLY`, `OOM`. `NOAUTH` stands for all
   * login errors. Undefined if it sent no reply, and for a quorum, whose servers may refuse for different reasons.
   */
  readonly refusal: string | undefined;

  constructor(message: string, details: LockUnavailableDetails = {}) {
    super(message, details);
    this.permanent = details.permanent ?? false;
    this.refusal = details.refusal;
  }
}

/**
 * Thrown if fewer than `replicas.min` replicas acknowledged a grant, which was then released. `permanent` is true if
 * the server refuses WAIT.
 *
 * @publicApi
 */
@named('LockReplicationError')
export class LockReplicationError extends LockUnavailableError {
  override readonly code = 'LOCK_REPLICATION';
}

/**
 * The template placeholder whose value cannot form a key.
 *
 * @publicApi
 */
export interface LockKeyPlaceholder {
  /** As written in the template, `<order.id>`. */
  readonly text: string;
  /** The index of the parameter. */
  readonly index: number;
  /** The properties that are read from the argument. Often none. */
  readonly path: readonly string[];
  /** True for `<...ids>`. */
  readonly spread: boolean;
}

/** The optional fields of a {@link LockKeyError}. */
export type LockKeyDetails = LockErrorDetails & DetailsOf<LockKeyError>;

/**
 * Thrown if a template is invalid, or if a resource or a placeholder's value cannot form a safe key.
 *
 * @publicApi
 */
@named('LockKeyError')
export class LockKeyError extends LockError {
  readonly code = 'LOCK_KEY';
  /** The placeholder whose value cannot form a key. Undefined if the error is not about a placeholder. */
  readonly placeholder: LockKeyPlaceholder | undefined;
  /** True if the value came with the request of a handler, or is a ticket. False if it came from the program. */
  readonly byClient: boolean;

  constructor(message: string, details: LockKeyDetails = {}) {
    super(message, details);
    this.placeholder = details.placeholder;
    this.byClient = details.byClient ?? false;
  }
}

/**
 * Thrown if the caller's asynchronous context already holds this lock, in a mode that does not cover the requested
 * one.
 *
 * @publicApi
 */
@named('LockReentryError')
export class LockReentryError extends LockError {
  readonly code = 'LOCK_REENTRY';
}

/**
 * Thrown if the application shuts down and no longer serves the request. Requests are refused once the module closes,
 * after a second without use at the end of the shutdown. `onDeposed` gets this error if a leadership is closed.
 *
 * @publicApi
 */
@named('LockClosedError')
export class LockClosedError extends LockError {
  readonly code = 'LOCK_CLOSED';
}

/**
 * Thrown if an option is not allowed. The message names the option, what was given and what was expected. Options of
 * the module are checked at startup, those of `@Locked` at decoration, and those of a call at the call.
 *
 * @publicApi
 */
@named('LockConfigError')
export class LockConfigError extends LockError {
  readonly code = 'LOCK_CONFIG';
}

/**
 * Thrown by a fence of `nestjs-redis-lock/fence` if it refuses a fencing token. A later holder has written, or the
 * fence cannot rule that out. Nothing was written, unless the client repeated a write whose reply was lost. Repeat the
 * work under a new lock, from its first read on.
 *
 * @publicApi
 */
@named('StaleFenceError')
export class StaleFenceError extends LockError {
  readonly code = 'LOCK_STALE';
}
