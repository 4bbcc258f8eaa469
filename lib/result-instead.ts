import { checkValue } from './common/check-options.js';
import { LockTimeoutError, LockUnavailableError } from './common/errors.js';
import { dropPromise } from './common/format-value.js';
import { WorkDone } from './engine/hold.js';
import { OPTIONS } from './options/option-table.js';

/** What happens to a call if others hold the lock until `waitMs` has elapsed. */
export type OnBusy = 'throw' | 'skip' | ((error: LockTimeoutError, ...args: never[]) => unknown);

/** What happens to a call if the store cannot be reached or refuses the request. */
export type OnUnavailable = 'throw' | 'skip' | ((error: LockUnavailableError, ...args: never[]) => unknown);

/** The label of all calls, or a function that returns the label of a call with these arguments. */
export type LabelOfCall = string | ((...args: never[]) => string | undefined) | undefined;

/**
 * Returns what a call returns in place of the work's result.
 *
 * @param error why the call got no lock.
 * @param self what the call's `this` is.
 * @throws the error, if nothing takes its place.
 */
export function resultInstead(
  error: unknown,
  { onBusy, onUnavailable }: { readonly onBusy: OnBusy; readonly onUnavailable: OnUnavailable },
  self: unknown,
  args: readonly unknown[],
): unknown {
  if (error instanceof WorkDone) return undefined;
  const isBusy = error instanceof LockTimeoutError;
  const instead = isBusy ? onBusy : error instanceof LockUnavailableError ? onUnavailable : 'throw';
  if (instead === 'throw') throw error;
  return instead === 'skip' ? undefined : (Reflect.apply(instead, self, [error, ...args]) as unknown);
}

/**
 * Returns the label of one call.
 *
 * @param where the function for errors, `GoodsController.buy`.
 * @throws LockConfigError if the label function returns something other than a string or undefined.
 */
export function labelOf(
  where: string,
  label: LabelOfCall,
  self: unknown,
  args: readonly unknown[],
): string | undefined {
  if (typeof label !== 'function') return label;
  const given: unknown = Reflect.apply(label, self, args);
  dropPromise(given);
  if (given !== undefined) checkValue(where, 'the result of the label function', given, OPTIONS.label);
  return given as string | undefined;
}
