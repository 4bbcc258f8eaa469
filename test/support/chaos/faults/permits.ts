import { type Fault, leases } from './fault.js';
import { rush } from './sharing.js';

/** Faults of a lock with permits. */

const permitHolderStopped: Fault = {
  name: 'permit holder stopped',
  what: 'SIGSTOP past its lease, after its last check of its permit; SIGCONT while others hold all permits',
  ablation: 'owner check of releases',
  breaks: 'overlap',
  terms: leases(600),
  promises: { waitMs: 5_000, losesHolds: true },
  stores: { token: {} },
  workload: 'permits',
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 500);
    await fleet.looked(holder);
    scene.injected(this.name);
    holder.stop();
    await scene.sleep(600);
    await fleet.longHolds(
      fleet.members.filter((member) => member !== holder),
      800,
    );
    await scene.sleep(100);
    holder.goOn();
    scene.healed(this.name);
    await scene.settle();
  },
};

export const permitFaults = [rush('permits', 'number of permits'), permitHolderStopped] as const;
