import { kindOf, type LockMode } from '../../../lib/core/store/lock-mode.js';

/** How the lock is taken in a run. */
export interface WorkloadKind {
  /** For the result. */
  readonly told: string;
  /** How each caller of a process takes it. */
  readonly callers: readonly LockMode[];
}

export const PERMITS = 3;

/** Readers many, writers few; of permits, so many that one process could have them all. */
const kinds = {
  alone: { told: 'alone', callers: ['exclusive', 'exclusive'] },
  readers: { told: 'readers and writers', callers: ['exclusive', 'shared', 'shared'] },
  permits: { told: `${PERMITS} permits`, callers: [PERMITS, PERMITS, PERMITS] },
} satisfies Record<string, WorkloadKind>;

export type WorkloadName = keyof typeof kinds;

export const WORKLOADS: Readonly<Record<WorkloadName, WorkloadKind>> = kinds;

/** How many places in the queue the callers of a process have: those who want the lock alone have one together. */
export function placesOf(workload: WorkloadName): number {
  const { callers } = WORKLOADS[workload];
  const sharing = callers.filter((mode) => kindOf(mode) !== 'exclusive').length;
  return sharing + Math.min(1, callers.length - sharing);
}
