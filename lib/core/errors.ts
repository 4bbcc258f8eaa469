/**
 * Every error of this library. They carry a stable `code` and no transport's status of their own: the exception
 * filter maps codes to HTTP, RPC and WebSocket answers.
 */

/** The stable `code` of a {@link LockError}. */
export type LockErrorCode =
  | 'LOCK_TIMEOUT'
  | 'LOCK_LOST'
  | 'LOCK_UNAVAILABLE'
  | 'LOCK_REPLICATION'
  | 'LOCK_KEY'
  | 'LOCK_REENTRY'
  | 'LOCK_CLOSED'
  | 'LOCK_CONFIG'
  | 'LOCK_STALE';

/** What every {@link LockError} may be given beside its message. */
export interface LockErrorDetails {
  /** The resource that was asked for, `goods:300`. */
  readonly resource?: string;
  /** Time between the call and the error, in milliseconds. */
  readonly elapsedMs?: number;
  /** What led to this error. */
  readonly cause?: unknown;
}

/** What an error says; by its shape, because errors come from other realms too (jest's, for one). */
export function messageOf(error: unknown): string {
  const shaped = typeof error === 'object' && error !== null && 'message' in error;
  return String(shaped ? error.message : error);
}

const brand = (name: string): symbol => Symbol.for(`nestjs-redis-lock.${name}`);

/** Gives a class an `instanceof` that holds across two installed copies of this package. */
function branded(name: string) {
  const symbol = brand(name);
  return (target: abstract new (...args: never[]) => LockError): void => {
    Object.defineProperty(target.prototype, symbol, { value: true });
    Object.defineProperty(target.prototype, 'name', { value: name, configurable: true, writable: true });
    Object.defineProperty(target, Symbol.hasInstance, {
      value(this: unknown, candidate: unknown): boolean {
        // A user's own subclass inherits this method: only the class itself answers by brand.
        if (this !== target) return Function.prototype[Symbol.hasInstance].call(this, candidate);
        return typeof candidate === 'object' && candidate !== null && symbol in candidate;
      },
    });
  };
}

/**
 * What all errors of this library extend. `instanceof` holds even where two copies of the package are installed.
 *
 * @publicApi
 */
@branded('LockError')
export abstract class LockError extends Error {
  /** Tells the errors apart; stable across versions. */
  abstract readonly code: LockErrorCode;
  /** The resource that was asked for; undefined where the error is not about one. */
  readonly resource: string | undefined;
  /** Time between the call and the error, in milliseconds; undefined where nothing was waited for. */
  readonly elapsedMs: number | undefined;

  constructor(message: string, details: LockErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.resource = details.resource;
    this.elapsedMs = details.elapsedMs;
  }
}

/** What a {@link LockTimeoutError} may be given. */
export interface LockTimeoutDetails extends LockErrorDetails {
  /** Remaining life of the lease that stood in the way, as last told by the store, in milliseconds. */
  readonly remainingMs?: number;
}

/**
 * Others held the lock until `waitMs` was over. The lock service is well; the resource is busy.
 *
 * @publicApi
 */
@branded('LockTimeoutError')
export class LockTimeoutError extends LockError {
  readonly code = 'LOCK_TIMEOUT';
  /**
   * Remaining life of the lease that stood in the way, as last told by the store, in milliseconds: when asking again
   * makes sense at the latest, if its holder does not renew it. Undefined where the store did not tell.
   */
  readonly remainingMs: number | undefined;

  constructor(message: string, details: LockTimeoutDetails = {}) {
    super(message, details);
    this.remainingMs = details.remainingMs;
  }
}

/**
 * The hold ended before its work did: the lease ran out, or the key was taken away. Whatever the work wrote after that
 * may have met another holder's. `cause` is the work's own error, if it failed as well.
 *
 * @publicApi
 */
@branded('LockLostError')
export class LockLostError extends LockError {
  readonly code = 'LOCK_LOST';
}

/** What a {@link LockUnavailableError} may be given. */
export interface LockUnavailableDetails extends LockErrorDetails {
  /** Whether asking again is of no use; false by default. */
  readonly permanent?: boolean;
}

/**
 * The store gave no usable answer: Redis is down, unreachable, slower than `requestTimeoutMs`, read-only, out of
 * memory, or refuses scripts. `cause` tells which. The lock is never handed out in this case.
 *
 * @publicApi
 */
@branded('LockUnavailableError')
export class LockUnavailableError extends LockError {
  readonly code: 'LOCK_UNAVAILABLE' | 'LOCK_REPLICATION' = 'LOCK_UNAVAILABLE';
  /**
   * The server refused in a way that asking again does not change: missing permissions, scripts that are not allowed, a
   * value of another type under the key. Such an error ends the waiting at once.
   */
  readonly permanent: boolean;

  constructor(message: string, details: LockUnavailableDetails = {}) {
    super(message, details);
    this.permanent = details.permanent ?? false;
  }
}

/**
 * Too few replicas know of the lock (`replicas`), which was given back: the store is not available as it should be. For
 * `lock.extend()`: the lock is held still, until its deadline. `permanent` where WAIT is refused.
 *
 * @publicApi
 */
@branded('LockReplicationError')
export class LockReplicationError extends LockUnavailableError {
  override readonly code = 'LOCK_REPLICATION';
}

/**
 * A template, a resource or a placeholder's value that makes no safe key.
 *
 * @publicApi
 */
@branded('LockKeyError')
export class LockKeyError extends LockError {
  readonly code = 'LOCK_KEY';
}

/**
 * The caller's own asynchronous context holds this lock already and reentrancy is off.
 *
 * @publicApi
 */
@branded('LockReentryError')
export class LockReentryError extends LockError {
  readonly code = 'LOCK_REENTRY';
}

/**
 * Asked while the application is shutting down.
 *
 * @publicApi
 */
@branded('LockClosedError')
export class LockClosedError extends LockError {
  readonly code = 'LOCK_CLOSED';
}

/**
 * An option that cannot work. Thrown at start, naming the option, what was given and what is allowed.
 *
 * @publicApi
 */
@branded('LockConfigError')
export class LockConfigError extends LockError {
  readonly code = 'LOCK_CONFIG';
}

/**
 * A fence has refused a fencing token: there is a later holder, or it cannot be told that there is none. Nothing was
 * written; the work may be done anew under a new lock, from its first read on. From `nestjs-redis-lock/fence`.
 *
 * @publicApi
 */
@branded('StaleFenceError')
export class StaleFenceError extends LockError {
  readonly code = 'LOCK_STALE';
}
