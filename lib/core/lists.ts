// Lists that are replaced, never changed in place. They nearly always have one item.

const EMPTY: readonly never[] = [];

/** Returns a list with one more item. */
export function withItem<T>(list: readonly T[], item: T): readonly T[] {
  return list.length === 0 ? [item] : [...list, item];
}

/** Returns a list without one item. Lists of one item, the usual case, cost no new list. */
export function without<T>(list: readonly T[], item: T): readonly T[] {
  if (list.length === 0 || (list.length === 1 && list[0] === item)) return EMPTY;
  return list.filter((each) => each !== item);
}
