/** What a process needs at a moment. */
export interface Sample {
  readonly heapBytes: number;
  readonly timers: number;
  readonly sockets: number;
}

/** By how much each may be more at the end than at the beginning: what a collector leaves behind, not what grows. */
const ALLOWED: Record<keyof Sample, (before: number) => number> = {
  heapBytes: (before) => before * 0.1 + 2 * 2 ** 20,
  timers: () => 10,
  sockets: () => 1,
};

/** Fewer tell nothing. */
export const LEAST_SAMPLES = 12;

/**
 * What has grown, if anything has: medians of the second and of the last quarter; the first is for getting warm. Medians,
 * because a sample may be taken while a server is away.
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
