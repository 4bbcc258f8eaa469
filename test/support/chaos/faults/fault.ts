import type { AblationName } from '../ablations.js';
import type { HoldDetails } from '../fleet/fleet.js';
import type { Member } from '../fleet/member.js';
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
  /** The defence that the control run switches off. That run must then commit this breach. */
  readonly control: { readonly without: AblationName; readonly breaks: Breach };
  /** How callers take the lock. Default: exclusively. */
  readonly workload?: WorkloadName;
  readonly terms: LockTerms;
  readonly promises: Promises;
  /** The stores that it applies to beside `token`, with their differing promises. */
  readonly others?: { readonly [Store in Exclude<StoreName, 'token'>]?: Partial<Promises> };
  /** The topology, if it needs more than masters. */
  readonly on?: ReplicatedTopologyName;
  /** The clocks that it sets. */
  readonly clocks?: 'servers' | 'clients';
  /** Killed servers keep their data. */
  readonly durable?: true;
  /** The client of the processes. Default: the module makes one, with the installed ioredis. */
  readonly client?: ClientName;
  /** The long holds during which it is injected. */
  readonly held?: LongHolds;
  /** Does what is wrong, and ends the holds that have no end. */
  inject(scene: Scene, ...holders: readonly Member[]): Promise<unknown>;
}

/** Long holds that begin before a fault. */
interface LongHolds extends HoldDetails {
  readonly ms: number;
  /** How many members hold the lock. Default: 1. */
  readonly by?: number;
  /** The fault comes after the last check of the lock. */
  readonly looked?: true;
  /** The fault comes when all others wait for the lock. */
  readonly waitedFor?: true;
}

export const OTHERS = { timestamp: {}, redisson: {}, quorum: {} } as const satisfies Fault['others'];

/** Longer than any wait of a fault. */
export const NO_END_MS = 60_000;
/** A hold that writes late: long after its only check, when the fault ends it. */
export const LATE_WRITER = { ms: NO_END_MS, lookAfterMs: 50, looked: true } as const;

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

/** Returns the faults with these names, in their order. Throws if one has another name by now. */
export function named(faults: readonly Fault[], ...names: readonly string[]): readonly Fault[] {
  return names.map((name) => {
    const found = faults.find((fault) => fault.name === name);
    if (found === undefined) throw new Error(`unknown fault "${name}"`);
    return found;
  });
}

/** Returns the same fault with a shared lock, on the token store. */
export function among(workload: WorkloadName, fault: Fault, more: Partial<Fault>): Fault {
  return { ...fault, name: `${fault.name}, ${WORKLOADS[workload].label}`, workload, others: {}, ...more };
}
