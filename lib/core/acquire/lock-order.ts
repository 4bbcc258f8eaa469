import type { Target } from './acquire-options.js';
import { fenceKey } from '../keys/resource-key.js';

/**
 * Each key once, in the order in which everybody takes several of them: whoever waits for one holds only what comes before it, so
 * that no two wait for each other (resource ordering: Havender, "Avoiding deadlock in multitasking systems", 1968). What one ask can take
 * stands together: up to `most` keys under one hash tag.
 */
export function inLockOrder(targets: readonly Target[], most: number): readonly (readonly Target[])[] {
  const placed = new Map<string, { readonly target: Target; readonly tag: string }>();
  for (const target of targets) {
    if (!placed.has(target.key)) placed.set(target.key, { target, tag: fenceKey(target.key) });
  }
  const groups: { readonly tag: string; readonly targets: Target[] }[] = [];
  const sorted = [...placed.values()].toSorted((a, b) => compare(a.tag, b.tag) || compare(a.target.key, b.target.key));
  for (const { target, tag } of sorted) {
    const last = groups.at(-1);
    if (last?.tag === tag && last.targets.length < most) last.targets.push(target);
    else groups.push({ tag, targets: [target] });
  }
  return groups.map((group) => group.targets);
}

/** By UTF-16 code units: the same on every machine, whatever its language. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
