import type { Target } from '../events/call.js';
import { hashTag } from '../keys/resource-key.js';

/**
 * Returns each key once, in the order in which every process acquires several keys. Because a caller that waits for a
 * key holds only keys before it, callers cannot deadlock (resource ordering: Havender, "Avoiding deadlock in
 * multitasking systems", 1968). A group has the keys of one request: up to `maxKeys` under one hash tag.
 */
export function inLockOrder(targets: readonly Target[], maxKeys: number): readonly (readonly Target[])[] {
  const byKey = new Map<string, { readonly target: Target; readonly tag: string }>();
  for (const target of targets) {
    if (!byKey.has(target.key)) byKey.set(target.key, { target, tag: hashTag(target.key) });
  }
  const groups: { readonly tag: string; readonly targets: Target[] }[] = [];
  const sorted = [...byKey.values()].toSorted((a, b) => compare(a.tag, b.tag) || compare(a.target.key, b.target.key));
  for (const { target, tag } of sorted) {
    const last = groups.at(-1);
    if (last?.tag === tag && last.targets.length < maxKeys) last.targets.push(target);
    else groups.push({ tag, targets: [target] });
  }
  return groups.map((group) => group.targets);
}

/** Compares by UTF-16 code units, so that the order is the same on every machine, whatever its locale. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
