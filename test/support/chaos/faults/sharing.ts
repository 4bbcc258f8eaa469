import type { AblationName } from '../ablations.js';
import type { HoldDetails } from '../fleet/fleet.js';
import { ClusterTopology } from '../topology/index.js';
import { WORKLOADS, type WorkloadName } from '../workload/kinds.js';
import { type Fault, leases } from './fault.js';
import { killed } from './processes.js';

/** Faults of shared locks, with readers or with permits. */

/** Returns a fault in which all callers request the lock at the same time. */
export function rush(workload: WorkloadName, ablation: AblationName): Fault {
  return {
    name: `rush, ${WORKLOADS[workload].label}`,
    what: 'no caller holds or wants the lock, and then all request it at once',
    ablation,
    breaks: 'overlap',
    terms: leases(1_000),
    promises: { waitMs: 2_500, keepsUpdates: true },
    stores: { token: {} },
    workload,
    async inject(scene) {
      const { fleet } = scene;
      scene.injected(this.name);
      await fleet.rest();
      fleet.go();
      scene.healed(this.name);
      await scene.settle();
    },
  };
}

/** @param holders how many members hold the lock: enough to make all others wait. */
export function sharersKilled(
  common: Pick<Fault, 'name' | 'what' | 'workload'>,
  holders: number,
  how: HoldDetails = {},
): Fault {
  return {
    ...common,
    ablation: 'leases of sharers',
    breaks: 'wait',
    terms: leases(1_000),
    promises: { waitMs: 5_000 },
    stores: { token: {} },
    async inject(scene) {
      const { fleet, random } = scene;
      const victims = fleet.some(holders, random);
      await fleet.longHolds(victims, 20_000, how);
      await fleet.allWait(...victims);
      await killed(scene, this.name, ...victims);
    },
  };
}

/** @param holders how many members hold the lock: enough to make all others wait. */
export function slotMoved(workload: WorkloadName, holders: number, how: HoldDetails = {}): Fault {
  return {
    name: `cluster slot moved, ${WORKLOADS[workload].label}`,
    what: "the lock's keys, and then its slot, move to another node while the lock is held and waited for",
    ablation: 'following slots',
    breaks: 'hold lost',
    terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
    promises: { waitMs: 10_000, refuses: true, keepsUpdates: true },
    stores: { token: {} },
    workload,
    on: 'cluster',
    async inject(scene) {
      const { fleet, random } = scene;
      const members = fleet.some(holders, random);
      // The leases outlast the fault only by renewals on the next node.
      await fleet.longHolds(members, 5_000, how);
      await fleet.allWait(...members);
      scene.injected(this.name);
      await scene.on(ClusterTopology).moveSlot(() => scene.sleep(1_000));
      scene.healed(this.name);
      await scene.settle();
    },
  };
}
