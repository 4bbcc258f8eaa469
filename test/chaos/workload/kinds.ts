import { kindOf, type LockMode } from '../../../lib/core/store/lock-mode.js';

/** How the callers of a run take the lock. */
export interface WorkloadKind {
  /** Its name in the results. */
  readonly label: string;
  /** The mode of each caller of a process. */
  readonly callers: readonly LockMode[];
}

export const PERMITS = 3;

/** Most callers are readers, few are writers. One process could hold all permits. */
const kinds = {
  alone: { label: 'alone', callers: ['exclusive', 'exclusive'] },
  readers: { label: 'readers and writers', callers: ['exclusive', 'shared', 'shared'] },
  permits: { label: `${PERMITS} permits`, callers: [PERMITS, PERMITS, PERMITS] },
} satisfies Record<string, WorkloadKind>;

export type WorkloadName = keyof typeof kinds;

export const WORKLOADS: Readonly<Record<WorkloadName, WorkloadKind>> = kinds;

/** Returns how many queue entries the callers of a process have. Its exclusive callers share one. */
export function placesOf(workload: WorkloadName): number {
  const { callers } = WORKLOADS[workload];
  const sharing = callers.filter((mode) => kindOf(mode) !== 'exclusive').length;
  return sharing + Math.min(1, callers.length - sharing);
}
