/** The resources of a process at one moment. */
export interface Sample {
  readonly heapBytes: number;
  readonly timers: number;
  readonly sockets: number;
}

/**
 * How much each may be at the end, by its value at the beginning. The allowance covers what garbage collection leaves.
 */
const ALLOWED: Record<keyof Sample, (before: number) => number> = {
  heapBytes: (before) => before * 0.1 + 2 * 2 ** 20,
  timers: () => 10,
  sockets: () => 1,
};

/** Fewer samples are not conclusive. */
export const LEAST_SAMPLES = 12;

/**
 * Returns what has grown. Compares the medians of the second and the last quarter, because the first quarter is
 * warm-up. Medians, because a sample may be taken while a server is down.
 */
export function growthOf(samples: readonly Sample[]): readonly string[] {
  if (samples.length < LEAST_SAMPLES) return [`only ${samples.length} samples were taken, of ${LEAST_SAMPLES}`];
  const quarter = Math.floor(samples.length / 4);
  const early = samples.slice(quarter, 2 * quarter);
  const late = samples.slice(-quarter);
  return (Object.keys(ALLOWED) as (keyof Sample)[]).flatMap((what) => {
    const before = median(early.map((sample) => sample[what]));
    const after = median(late.map((sample) => sample[what]));
    return after > before + ALLOWED[what](before) ? [`${what} grew from ${before} to ${after}`] : [];
  });
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
}
