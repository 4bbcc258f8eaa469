/**
 * How many replicas must have a lock before it counts.
 *
 * @publicApi
 */
export interface ReplicaOptions {
  /** How many replicas must acknowledge each grant and each renewal. At least 1. */
  readonly min: number;
  /**
   * How long the replicas may take, in milliseconds. If it is long, callers learn late that a replica is gone. If it is
   * short, a slow replica counts as gone.
   *
   * @default 50
   */
  readonly timeoutMs?: number;
}
