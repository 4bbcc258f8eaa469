import { compatible, type Hold } from './holds.js';

/** Two holders that trusted the lock at the same time but must not. With permits, none was left for the second. */
export interface Overlap {
  readonly first: string;
  readonly second: string;
  readonly ms: number;
}

/** Holders at the same time. */
export interface Concurrency {
  readonly overlaps: readonly Overlap[];
  /** The highest number of holders that trusted the lock at the same time. */
  readonly mostAtOnce: number;
}

/** Compares the holds of each resource. Two holders that overlap on several resources count once. */
export function concurrencyOf(holds: readonly Hold[]): Concurrency {
  const resources = new Set(holds.flatMap((hold) => hold.resources));
  const each = [...resources].map((one) => concurrencyAt(holds.filter((hold) => hold.resources.includes(one))));
  const overlaps = new Map(each.flatMap((one) => one.overlaps).map((one) => [`${one.first} ${one.second}`, one]));
  return { overlaps: [...overlaps.values()], mostAtOnce: Math.max(0, ...each.map(({ mostAtOnce }) => mostAtOnce)) };
}

/** Compares each hold with the holds that are trusted when it begins. Reports the one that is trusted longest. */
function concurrencyAt(holds: readonly Hold[]): Concurrency {
  const overlaps: Overlap[] = [];
  let inside: readonly Hold[] = [];
  let mostAtOnce = 0;
  for (const hold of holds.filter(({ enteredAt, trustedUntil }) => trustedUntil > enteredAt)) {
    inside = inside.filter(({ trustedUntil }) => trustedUntil > hold.enteredAt);
    const first = blockerOf(inside, hold);
    if (first !== undefined) {
      const ms = Math.min(first.trustedUntil, hold.trustedUntil) - hold.enteredAt;
      overlaps.push({ first: first.op, second: hold.op, ms });
    }
    inside = [...inside, hold];
    mostAtOnce = Math.max(mostAtOnce, inside.length);
  }
  return { overlaps, mostAtOnce };
}

/** Returns the hold that the new one should have waited for. */
function blockerOf(inside: readonly Hold[], { mode }: Hold): Hold | undefined {
  const [longest] = byEnds(inside.filter((other) => !compatible(other.mode, mode)));
  if (longest !== undefined || typeof mode !== 'number') return longest;
  // With `mode` other holders inside, no permit is left.
  return byEnds(inside)[mode - 1];
}

function byEnds(holds: readonly Hold[]): readonly Hold[] {
  return holds.toSorted((one, other) => other.trustedUntil - one.trustedUntil);
}
