type Undo = () => void;

/**
 * Records all objects that can be reached from `root`. Returns a function that restores them *in place*, so that
 * closures still refer to the right objects. So the model checker can go back one step without running the prefix
 * again. Functions, promises and errors have no state that matters. Frozen objects have none at all.
 */
export function capture(root: object): Undo {
  const undos: Recorded[] = [];
  const seen = new Bag();
  const pending: unknown[] = [root];
  while (pending.length > 0) {
    const object = pending.pop();
    if (typeof object !== 'object' || object === null || seen.has(object)) continue;
    seen.add(object);
    const recorded = record(object);
    if (recorded === undefined) continue;
    undos.push(recorded);
    pending.push(...recorded.values);
  }
  return () => {
    for (const recorded of undos) restore(recorded);
  };
}

interface Recorded {
  readonly object: object;
  /** The names of fields or the keys of a map, undefined for a list. */
  readonly names: readonly unknown[] | undefined;
  readonly values: readonly unknown[];
}

type Fields = Record<string, unknown>;

// Jest's contexts look globals up slowly, and this runs a million times.
const { isArray } = Array;
const { keys, values: valuesOf, isFrozen } = Object;
const [Bag, Table, Future, Failure] = [Set<unknown>, Map, Promise, Error];

function record(object: object): Recorded | undefined {
  if (isArray(object)) return { object, names: undefined, values: [...(object as unknown[])] };
  if (object instanceof Bag) return { object, names: undefined, values: [...object] };
  if (object instanceof Table) return { object, names: [...object.keys()], values: [...object.values()] };
  if (isFrozen(object) || object instanceof Future || object instanceof Failure) return undefined;
  return { object, names: keys(object), values: valuesOf(object) };
}

function restore({ object, names, values }: Recorded): void {
  if (object instanceof Bag) restoreSet(object, values);
  else if (names === undefined) restoreList(object as unknown[], values);
  else if (object instanceof Table) restoreMap(object, names, values);
  else restoreFields(object as Fields, names as readonly string[], values);
}

function restoreList(list: unknown[], items: readonly unknown[]): void {
  list.length = items.length;
  for (let i = 0; i < items.length; i += 1) list[i] = items[i];
}

function restoreSet(set: Set<unknown>, items: readonly unknown[]): void {
  if (set.size === 0 && items.length === 0) return;
  set.clear();
  for (const item of items) set.add(item);
}

function restoreMap(map: Map<unknown, unknown>, names: readonly unknown[], values: readonly unknown[]): void {
  map.clear();
  names.forEach((name, i) => map.set(name, values[i]));
}

function restoreFields(object: Fields, names: readonly string[], values: readonly unknown[]): void {
  for (let i = 0; i < names.length; i += 1) object[names[i]] = values[i];
  // Fields without an initial value are created when they are first set.
  const now = keys(object);
  for (let i = names.length; i < now.length; i += 1) object[now[i]] = undefined;
}
