import type { Grant } from './grant.js';

/** Grants that have something in common. At least one. */
export type GrantGroup = readonly Grant[];

/** Groups grants by what `partOf` returns for them. */
export function groupsBy(grants: readonly Grant[], partOf: (grant: Grant) => unknown): readonly GrantGroup[] {
  const groups = new Map<unknown, Grant[]>();
  for (const grant of grants) {
    const part = partOf(grant);
    const group = groups.get(part);
    if (group === undefined) groups.set(part, [grant]);
    else group.push(grant);
  }
  return [...groups.values()];
}
