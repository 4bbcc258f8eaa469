import { goTogether, type Hold } from './holds.js';

/** Two who believed in the lock at the same time, and must not: where there are permits, the second one found none left. */
export interface Overlap {
  readonly first: string;
  readonly second: string;
  readonly ms: number;
}

/** Who held the lock with whom. */
export interface Company {
  readonly overlaps: readonly Overlap[];
  /** How many believed in the lock at the same time, the most. */
  readonly mostAtOnce: number;
}

/** Each hold against those that are believed in when it begins, and of these against the one that is for longest. */
export function companyOf(holds: readonly Hold[]): Company {
  const overlaps: Overlap[] = [];
  let inside: readonly Hold[] = [];
  let mostAtOnce = 0;
  for (const hold of holds.filter(({ enteredAt, believedUntil }) => believedUntil > enteredAt)) {
    inside = inside.filter(({ believedUntil }) => believedUntil > hold.enteredAt);
    const first = inTheWay(inside, hold);
    if (first !== undefined) {
      const ms = Math.min(first.believedUntil, hold.believedUntil) - hold.enteredAt;
      overlaps.push({ first: first.op, second: hold.op, ms });
    }
    inside = [...inside, hold];
    mostAtOnce = Math.max(mostAtOnce, inside.length);
  }
  return { overlaps, mostAtOnce };
}

/** Whose end it should have waited for. */
function inTheWay(inside: readonly Hold[], { mode }: Hold): Hold | undefined {
  const [longest] = byEnds(inside.filter((other) => !goTogether(other.mode, mode)));
  if (longest !== undefined || typeof mode !== 'number') return longest;
  // As long as so many others are inside, there are too many.
  return byEnds(inside)[mode - 1];
}

function byEnds(holds: readonly Hold[]): readonly Hold[] {
  return holds.toSorted((one, other) => other.believedUntil - one.believedUntil);
}
