import { holdersOf, keyOf, queueOf } from '../workload/key.js';
import { PERMITS } from '../workload/kinds.js';
import { among, type Fault, leases } from './fault.js';
import { repliesDropped } from './network.js';
import { keyDeleted } from './servers.js';
import { rush, sharersKilled, slotMoved } from './sharing.js';

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

const permitHoldersKilled = sharersKilled(
  { name: 'permit holders killed', what: 'kill -9 of all permit holders', workload: 'permits' },
  PERMITS,
);

export const permitFaults = [
  rush('permits', 'number of permits'),
  permitHolderStopped,
  permitHoldersKilled,
  among('permits', keyDeleted(PERMITS, {}, [keyOf(), holdersOf(), queueOf()]), {
    what: 'DEL of all keys of a lock whose permits are held, and of its queue; the next holder holds a permit for long',
    // A waiter that has lost its place in the queue notices it at its next regular retry.
    promises: { waitMs: 8_000, losesHolds: true, overlapMs: 700 },
  }),
  among('permits', repliesDropped),
  slotMoved('permits', PERMITS),
] as const;
