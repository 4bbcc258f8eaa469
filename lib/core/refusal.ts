import { LockClosedError, LockReplicationError, LockTimeoutError, LockUnavailableError, messageOf } from './errors.js';
import type { ExtendReply } from './lock-store.js';

/** What the store said last of a key. */
export type LastWord =
  | { readonly kind: 'none' }
  /** Held by somebody, until then at the latest if it is not renewed. */
  | { readonly kind: 'held'; readonly until: number | undefined }
  | { readonly kind: 'failed'; readonly error: LockUnavailableError };

export const SILENT: LastWord = { kind: 'none' };

export function heldUntil(until: number | undefined): LastWord {
  return { kind: 'held', until };
}

export function failedBecause(error: LockUnavailableError): LastWord {
  return { kind: 'failed', error };
}

/** Who is refused, and when. */
export interface Refused {
  readonly resource: string;
  readonly key: string;
  readonly waitMs: number;
  readonly enteredAt: number;
  readonly now: number;
}

/** Why a waiter gets no lock. Busy and unreachable are never the same error: what counts is what the store said last. */
export function refusal(lastWord: LastWord, refused: Refused): LockTimeoutError | LockUnavailableError {
  const { resource, now, enteredAt } = refused;
  const elapsedMs = now - enteredAt;
  if (lastWord.kind === 'held') return timeout(lastWord.until, refused, elapsedMs);
  if (lastWord.kind === 'none') return unavailable(resource, 'no answer from the store yet', { elapsedMs });
  const { message, permanent, cause } = lastWord.error;
  const Kind = lastWord.error instanceof LockReplicationError ? LockReplicationError : LockUnavailableError;
  return new Kind(message, { resource, elapsedMs, permanent, cause });
}

function timeout(until: number | undefined, refused: Refused, elapsedMs: number): LockTimeoutError {
  const { resource, key, waitMs, now } = refused;
  const remainingMs = until === undefined ? undefined : Math.max(0, until - now);
  const hint = remainingMs === Infinity ? ` Its key ${key} has no expiry: no lock of this library wrote it.` : '';
  const message = `${resource} is locked by others (waited ${Math.round(elapsedMs)} of ${waitMs} ms).${hint}`;
  return new LockTimeoutError(message, { resource, elapsedMs, remainingMs });
}

/** The store could not be asked. */
export function unavailable(
  resource: string,
  why: string,
  details: { readonly cause?: unknown; readonly elapsedMs?: number } = {},
): LockUnavailableError {
  const because = details.cause === undefined ? why : `${why} (${messageOf(details.cause)})`;
  return new LockUnavailableError(`${resource} could not be locked: ${because}.`, { resource, ...details });
}

/** A new lease was asked for, and it is not certain that it was given. */
export function notExtended(resource: string, reply: ExtendReply): LockUnavailableError {
  const message = `The lease of ${resource} could not be extended`;
  return reply === 'unreplicated'
    ? new LockReplicationError(`${message}: too few replicas know of it.`, { resource })
    : new LockUnavailableError(`${message}: no answer from the store.`, { resource });
}

/** The application is shutting down. */
export function closed(resource: string): LockClosedError {
  return new LockClosedError(`${resource} cannot be locked: the application is shutting down.`, { resource });
}
