import type { AblationName } from '../ablations.js';
import type { Breach, Promises } from '../history/promises.js';
import type { Scene } from '../scene.js';
import type { ReplicatedTopologyName } from '../topology/index.js';
import { type WorkloadName, WORKLOADS } from '../workload/kinds.js';
import type { ClientName, LockTerms, StoreName } from '../workload/orders.js';

/** A fault, and the promises that hold under it. */
export interface Fault {
  readonly name: string;
  /** One line for the results. */
  readonly what: string;
  /** The defence that the control run switches off. That run must then commit the breach below. */
  readonly ablation: AblationName;
  readonly breaks: Breach;
  /** How callers take the lock. Default: exclusively. */
  readonly workload?: WorkloadName;
  readonly terms: LockTerms;
  readonly promises: Promises;
  /** The stores that it applies to, with their differing promises. */
  readonly stores: { readonly [Store in StoreName]?: Partial<Promises> };
  /** The topology, if it needs more than masters. */
  readonly on?: ReplicatedTopologyName;
  /** The clocks that it sets. */
  readonly clocks?: 'servers' | 'clients';
  /** Killed servers keep their data. */
  readonly durable?: true;
  /** The client of the processes. Default: the module makes one, with the installed ioredis. */
  readonly client?: ClientName;
  /** Injects the fault once, and waits until it is over. */
  inject(scene: Scene): Promise<void>;
}

/** Every store, with the promises of the fault. */
export const ALL_STORES = { token: {}, timestamp: {}, redisson: {}, quorum: {} } as const satisfies Record<
  StoreName,
  object
>;

/** Returns terms with that lease. Callers wait much longer than the promises. */
export function leases(ttlMs: number, more: Partial<LockTerms> = {}): LockTerms {
  return { ttlMs, waitMs: 8_000, requestTimeoutMs: 1_000, ...more };
}

/**
 * Returns how long a living waiter may wait beside the holds ahead of it and the fault: a lease, because a grant may be
 * lost with its reply, and 2 s to connect and ask again. `docs/redis-down.md` has these 2 s.
 */
export function freeFor(ttlMs: number): number {
  return ttlMs + 2_000;
}

/** Returns the same fault with a shared lock, on the token store. */
export function among(workload: Exclude<WorkloadName, 'alone'>, fault: Fault, more: Partial<Fault> = {}): Fault {
  return { ...fault, name: `${fault.name}, ${WORKLOADS[workload].label}`, workload, stores: { token: {} }, ...more };
}
