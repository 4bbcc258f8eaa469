import { LockKeyError, type LockKeyPlaceholder, messageOf } from '../common/errors.js';

/** How many resources one call may lock. */
export const MAX_RESOURCES = 1_000;

/** Returns whether a value is a list. False for a list that cannot be read, such as a revoked Proxy. */
export function isList(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/**
 * Returns a copy of the list of what is locked together. Holes are undefined.
 *
 * @param describe returns what the list is, to begin a sentence with. Called for errors only.
 * @param placeholder the placeholder whose value the list is, for {@link LockKeyError.placeholder}.
 * @throws LockKeyError if the list is empty, has more than 1,000 items, or cannot be read.
 */
export function readList(
  list: readonly unknown[],
  describe: () => string,
  placeholder?: LockKeyPlaceholder,
): readonly unknown[] {
  let length: number;
  try {
    ({ length } = list);
    // By index, because the list's own iterator could continue forever.
    if (length > 0 && length <= MAX_RESOURCES) return Array.from({ length }, (_, index) => list[index]);
  } catch (cause) {
    throw new LockKeyError(`${describe()} cannot be read: an item failed (${messageOf(cause)}).`, {
      cause,
      placeholder,
    });
  }
  const problem =
    length === 0
      ? 'is an empty array: there is nothing to lock'
      : `has ${length} items; expected 1 to ${MAX_RESOURCES}`;
  throw new LockKeyError(`${describe()} ${problem}.`, { placeholder });
}
