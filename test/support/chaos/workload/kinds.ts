import { kindOf, type LockMode } from '../../../../lib/contract/lock-mode.js';
import { RESOURCE } from './orders.js';

/** How a caller takes its locks. */
export interface Caller {
  readonly mode: LockMode;
  /** Only permits may leave out the workload's resource, because their holders do not touch what it protects. */
  readonly resources: readonly string[];
  /** Other locks that it requests and releases in the same tick, in the same mode, so that all travel together. */
  readonly company?: readonly string[];
  /** It detaches its lock after reading, and any process resumes it and writes. */
  readonly detaches?: true;
}

/** How the callers of a run take the lock. */
export interface WorkloadKind {
  /** Its name in the results. */
  readonly label: string;
  /** The callers of a process. */
  readonly callers: readonly Caller[];
}

export const PERMITS = 3;

/** In the family of the workload's resource: both are locked by one script. */
const SISTER = 'goods:301';
/** In a family of its own. */
const STRANGER = 'orders:7';

const alone: Caller = { mode: 'exclusive', resources: [RESOURCE] };
const editor: Caller = { ...alone, detaches: true };
const reader: Caller = { mode: 'shared', resources: [RESOURCE] };
const inCompany = (caller: Caller, name: string): Caller => ({
  ...caller,
  company: Array.from({ length: 20 }, (_, i) => `${name}${i}`),
});
const permit: Caller = { mode: PERMITS, resources: [RESOURCE] };

/** Most callers are readers, few are writers. One process could hold all permits. */
const kinds = {
  alone: { label: 'alone', callers: [alone, alone] },
  readers: { label: 'readers and writers', callers: [alone, reader, reader] },
  permits: { label: `${PERMITS} permits`, callers: [permit, permit, permit] },
  crowd: { label: 'alone, 6 callers a process', callers: Array.from({ length: 6 }, () => alone) },
  tickets: { label: 'alone, detached and resumed', callers: [editor, editor] },
  batches: {
    label: 'readers and writers, in batches',
    callers: [inCompany(alone, 'a'), inCompany(reader, 'b'), inCompany(reader, 'c')],
  },
  several: {
    label: 'several locks, readers and permits',
    callers: [
      { mode: 'exclusive', resources: [RESOURCE, SISTER] },
      { mode: 'exclusive', resources: [STRANGER, SISTER, RESOURCE] },
      { mode: 'shared', resources: [SISTER, RESOURCE] },
      reader,
      { mode: PERMITS, resources: [SISTER, STRANGER] },
    ],
  },
} satisfies Record<string, WorkloadKind>;

export type WorkloadName = keyof typeof kinds;

export const WORKLOADS: Readonly<Record<WorkloadName, WorkloadKind>> = kinds;

/** Returns whether some callers share the lock. */
export function shares(workload: WorkloadName): boolean {
  return WORKLOADS[workload].callers.some(isSharing);
}

function isSharing({ mode }: Caller): boolean {
  return kindOf(mode) !== 'exclusive';
}
