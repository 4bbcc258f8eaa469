import type { AblationName } from '../ablations.js';
import { WORKLOADS, type WorkloadName } from '../workload/kinds.js';
import { type Fault, leases } from './fault.js';

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
