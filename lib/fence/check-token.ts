import { LockConfigError, StaleFenceError } from '../core/errors.js';

/**
 * Tokens are compared as numbers by some and as texts by others, which is the same for whole ones up to 2⁵³.
 *
 * @throws {LockConfigError} on anything else.
 */
export function checkToken(token: number, resource: string): void {
  if (Number.isSafeInteger(token) && token >= 0) return;
  const shown = typeof token === 'number' ? String(token) : typeof token;
  throw new LockConfigError(`A fencing token is a whole number up to 2^53 - 1, like lock.fencingToken, not ${shown}.`, {
    resource,
  });
}

/** A holder who comes to open the fence after a later one. */
export function opensTooLate(resource: string, token: number): StaleFenceError {
  return new StaleFenceError(`Token ${token} came too late to ${resource}: a later holder has opened its fence.`, {
    resource,
  });
}

/** A holder who comes to write after a later one, or who cannot be told from one. */
export function writesTooLate(resource: string, token: number): StaleFenceError {
  return new StaleFenceError(
    `Nothing was written to ${resource} with token ${token}: a later holder has opened its fence since, ` +
      'or it was not opened with this token, or not kept.',
    { resource },
  );
}
