type Undo = () => void;

/**
 * Takes down everything that can be reached from `root`, and answers how to put it all back *into the same objects*: what
 * closures have caught stays right, as long as they share nothing but objects. That is what lets an explorer go back one
 * step instead of running a prefix again. Functions, promises and errors have no state of interest; frozen objects none
 * at all.
 */
export function capture(root: object): Undo {
  const undos: Kept[] = [];
  const seen = new Bag();
  const pending: unknown[] = [root];
  while (pending.length > 0) {
    const object = pending.pop();
    if (typeof object !== 'object' || object === null || seen.has(object)) continue;
    seen.add(object);
    const kept = keep(object);
    if (kept === undefined) continue;
    undos.push(kept);
    pending.push(...kept.values);
  }
  return () => {
    for (const kept of undos) putBack(kept);
  };
}

interface Kept {
  readonly object: object;
  /** Fields' names or a map's keys; undefined for a list. */
  readonly names: readonly unknown[] | undefined;
  readonly values: readonly unknown[];
}

type Fields = Record<string, unknown>;

// Looking a global up is slow in Jest's contexts, and this is done a million times.
const { isArray } = Array;
const { keys, values: valuesOf, isFrozen } = Object;
const [Bag, Table, Future, Failure] = [Set<unknown>, Map, Promise, Error];

function keep(object: object): Kept | undefined {
  if (isArray(object)) return { object, names: undefined, values: [...(object as unknown[])] };
  if (object instanceof Bag) return { object, names: undefined, values: [...object] };
  if (object instanceof Table) return { object, names: [...object.keys()], values: [...object.values()] };
  if (isFrozen(object) || object instanceof Future || object instanceof Failure) return undefined;
  return { object, names: keys(object), values: valuesOf(object) };
}

function putBack({ object, names, values }: Kept): void {
  if (object instanceof Bag) putBackSet(object, values);
  else if (names === undefined) putBackList(object as unknown[], values);
  else if (object instanceof Table) putBackMap(object, names, values);
  else putBackFields(object as Fields, names as readonly string[], values);
}

function putBackList(list: unknown[], items: readonly unknown[]): void {
  list.length = items.length;
  for (let i = 0; i < items.length; i += 1) list[i] = items[i];
}

function putBackSet(set: Set<unknown>, items: readonly unknown[]): void {
  if (set.size === 0 && items.length === 0) return;
  set.clear();
  for (const item of items) set.add(item);
}

function putBackMap(map: Map<unknown, unknown>, names: readonly unknown[], values: readonly unknown[]): void {
  map.clear();
  names.forEach((name, i) => map.set(name, values[i]));
}

function putBackFields(object: Fields, names: readonly string[], values: readonly unknown[]): void {
  for (let i = 0; i < names.length; i += 1) object[names[i]] = values[i];
  // Fields without an initial value come into being when they are set first.
  const now = keys(object);
  for (let i = names.length; i < now.length; i += 1) object[now[i]] = undefined;
}
