import { LockConfigError, StaleFenceError } from '../common/errors.js';
import { formatValue } from '../common/format-value.js';

/**
 * Checks that a token is a whole number from 0 to 2⁵³ - 1. Databases compare tokens as numbers or as text. Both orders
 * agree up to this limit.
 *
 * @throws {LockConfigError} if the token is not such a number.
 */
export function checkToken(token: number, resource: string): void {
  if (Number.isSafeInteger(token) && token >= 0) return;
  const allowed = 'a whole number from 0 to 2^53 - 1, as lock.fencingToken is';
  throw new LockConfigError(`The fencing token is ${formatValue(token)}; expected ${allowed}.`, { resource });
}

/** Returns the error for an `open` with a lower token than the last one. */
export function staleOpen(resource: string, token: number): StaleFenceError {
  return new StaleFenceError(`Token ${token} came too late to ${resource}: a later holder has opened its fence.`, {
    resource,
  });
}

/** Returns the error for a `write` with a token other than the last one. */
export function staleWrite(resource: string, token: number): StaleFenceError {
  return new StaleFenceError(
    `The write to ${resource} with token ${token} was refused: a later holder has opened its fence since, ` +
      'or it was not opened with this token, or it was lost.',
    { resource },
  );
}
