import type { LockStore } from '../store/lock-store.js';
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

/**
 * Groups grants by server, and those of a server by owner: callers that have one share of a lock have one owner, which
 * one request renews.
 */
export function ownersByServer(grants: readonly Grant[], store: LockStore): readonly (readonly GrantGroup[])[] {
  const groups = groupsBy(grants, ({ key }) => store.serverOf?.(key));
  return groups.map((group) => groupsBy(group, ({ ender }) => ender));
}
