import type { DefenceName } from '../ablations.js';
import type { Breach, Promises } from '../history/promises.js';
import type { Scene } from '../scene.js';
import type { ReplicatedTopologyName } from '../topology/index.js';
import { type WorkloadName, WORKLOADS } from '../workload/kinds.js';
import type { LockTerms, StoreName } from '../workload/orders.js';

/** A kind of trouble, and what is promised under it. */
export interface Fault {
  readonly name: string;
  /** What happens, in a line. */
  readonly what: string;
  /** The one defence that it puts to the test. Without it the same run has to break that promise. */
  readonly defence: DefenceName;
  readonly breaks: Breach;
  /** How the lock is taken; each time alone, if it does not say. */
  readonly workload?: WorkloadName;
  readonly terms: LockTerms;
  readonly promises: Promises;
  /** The stores that it applies to, and what they promise otherwise. */
  readonly stores: { readonly [Store in StoreName]?: Partial<Promises> };
  /** What it takes beside masters. It is made once there, since nothing is as before. */
  readonly on?: ReplicatedTopologyName;
  /** Whose clocks it sets. */
  readonly clocks?: 'servers' | 'clients';
  /** The servers keep their data when they are killed. */
  readonly durable?: true;
  /** It is made of other faults. */
  readonly mixed?: true;
  /** Makes trouble once, and waits until it is over. */
  inject(scene: Scene): Promise<void>;
}

export const ALL_STORES = { token: {}, timestamp: {}, redisson: {}, quorum: {} } as const;

/** Terms with that lease; callers wait much longer than anything promised. */
export function leases(ttlMs: number, more: Partial<LockTerms> = {}): LockTerms {
  return { ttlMs, waitMs: 8_000, requestTimeoutMs: 1_000, ...more };
}

/** The same trouble where the lock is shared, on the default store. */
export function among(workload: Exclude<WorkloadName, 'alone'>, fault: Fault, more: Partial<Fault> = {}): Fault {
  return { ...fault, name: `${fault.name}, ${WORKLOADS[workload].told}`, workload, stores: { token: {} }, ...more };
}
