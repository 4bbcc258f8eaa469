import { Logger } from '@nestjs/common';
import { LockConfigError } from '../common/errors.js';
import type { LockedMethod } from './decorated-method.js';

/** Each method is reported once. */
const reported = new WeakSet<LockedMethod>();

/**
 * Returns the error for a method that is not asynchronous. Its callers get a promise where they expect a value, so that
 * `left(1) > 0` is false. Also logs the first one of each method, because such callers handle no rejection.
 */
export function synchronousMethod(method: LockedMethod, returned: unknown): LockConfigError {
  const message =
    `${method.name} is @Locked and returned ${kindOfValue(returned)}, not a promise. Its callers get a promise, ` +
    'because the lock is acquired first: declare the method async, and await its calls.';
  if (!reported.has(method)) new Logger('RedisLockModule').error(message);
  reported.add(method);
  return new LockConfigError(message);
}

/** Returns what a value is, without the value itself, which may be a secret. */
function kindOfValue(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
