/**
 * The longest time that a probe may take, in milliseconds, unless `requestTimeoutMs` is longer. An instance polls until
 * it has a subscription, and others may overtake it.
 */
const LONGEST_PROBE_MS = 5_000;

/** Returns how long a probe may take, in milliseconds. Each probe in a row that did not arrive doubles the time. */
export function probeDelayMs(requestTimeoutMs: number, failedProbes: number): number {
  return Math.min(requestTimeoutMs * 2 ** failedProbes, Math.max(LONGEST_PROBE_MS, requestTimeoutMs));
}
