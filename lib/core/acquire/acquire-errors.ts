import {
  LockClosedError,
  LockConfigError,
  type LockError,
  LockReentryError,
  LockReplicationError,
  LockTimeoutError,
  LockUnavailableError,
  messageOf,
} from '../errors.js';
import { modesOf } from '../store/lock-mode.js';
import type { ExtendReply, LockMode, PermitsMismatch, StoreCapabilities } from '../store/lock-store.js';

/** What the store said last of a key. */
export type LastReply =
  | { readonly kind: 'none' }
  /** Held by somebody, until then at the latest if it is not renewed. */
  | { readonly kind: 'held'; readonly until: number | undefined }
  /** Held with another number of permits. */
  | { readonly kind: 'permits-mismatch'; readonly permits: number }
  | { readonly kind: 'failed'; readonly error: LockUnavailableError };

export const NO_REPLY: LastReply = { kind: 'none' };

export function heldUntil(until: number | undefined): LastReply {
  return { kind: 'held', until };
}

export function failedBecause(error: LockUnavailableError): LastReply {
  return { kind: 'failed', error };
}

export function otherPermits({ permits }: PermitsMismatch): LastReply {
  return { kind: 'permits-mismatch', permits };
}

/** Who is refused, and when. */
export interface RefusedWaiter {
  readonly resource: string;
  readonly key: string;
  readonly mode: LockMode;
  readonly waitMs: number;
  readonly enteredAt: number;
  readonly now: number;
}

/** Why a waiter gets no lock. Busy and unreachable are never the same error: what counts is what the store said last. */
export function acquireError(lastWord: LastReply, refused: RefusedWaiter): LockError {
  const { resource, now, enteredAt } = refused;
  const elapsedMs = now - enteredAt;
  if (lastWord.kind === 'permits-mismatch') return permitsMismatch(lastWord.permits, refused);
  if (lastWord.kind === 'held') return timeout(lastWord.until, refused, elapsedMs);
  if (lastWord.kind === 'none') return unavailable(resource, 'no answer from the store yet', { elapsedMs });
  const { message, permanent, cause } = lastWord.error;
  const Kind = lastWord.error instanceof LockReplicationError ? LockReplicationError : LockUnavailableError;
  return new Kind(message, { resource, elapsedMs, permanent, cause });
}

function permitsMismatch(permits: number, { resource, mode }: RefusedWaiter): LockConfigError {
  const message = `${resource} is held as one of ${permits} permits, and one of ${mode} was asked for: all have to name one number`;
  return new LockConfigError(`${message}.`, { resource });
}

function timeout(until: number | undefined, refused: RefusedWaiter, elapsedMs: number): LockTimeoutError {
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

/** Whoever shares a lock asks for more than that: it would wait for others, who may do the same, and so for itself. */
export function upgradeRefused(resource: string, held: LockMode, wanted: LockMode): LockReentryError {
  const message = `${resource} is held by the caller itself already, ${format(held)}, which does not cover ${format(wanted)}`;
  const advice = 'release it first, or take it so from the start';
  return new LockReentryError(`${message}: ${advice}.`, { resource });
}

/** The store has no such mode. */
export function unsupportedMode(resource: string, mode: LockMode, capabilities: StoreCapabilities): LockConfigError {
  return new LockConfigError(`${describeUnsupportedMode(capabilities, mode)}.`, { resource });
}

/** What a store cannot do that is asked for by a mode it does not have, and what it can. */
export function describeUnsupportedMode(capabilities: StoreCapabilities, mode: LockMode): string {
  const { name = 'this store' } = capabilities;
  const [option, wanted] = typeof mode === 'number' ? ['permits', 'with permits'] : ['mode', mode];
  return `${option}: ${name} does not lock ${wanted}; allowed is ${modesOf(capabilities).join(' or ')}`;
}

function format(mode: LockMode): string {
  return typeof mode === 'number' ? `with one of ${mode} permits` : mode;
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
