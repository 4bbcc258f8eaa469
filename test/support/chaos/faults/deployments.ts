import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { ALL_STORES, type Fault, freeFor, leases } from './fault.js';

/** Faults of deployments: processes shut down while they hold and wait, and new ones take their places. */

const HOLD_MS = 1_000;
/** Longer than `waitMs`, as the documentation asks for. */
const PATIENT = leases(3_000, { shutdownGraceMs: 20_000 });

const deployed: Fault = {
  name: 'deployment',
  what: 'all processes are replaced one after another, by SIGTERM while each holds the lock or waits for it',
  ablation: 'grace of a shutdown',
  breaks: 'hold lost',
  terms: PATIENT,
  promises: { waitMs: 6_000, freeMs: freeFor(PATIENT.ttlMs), keepsUpdates: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    for (const [i, member] of fleet.members.entries()) {
      await fleet.join();
      await shutDown(scene, this.name, { member, holder: i % 2 === 0 ? member : fleet.other(random, member) });
    }
    await scene.settle();
  },
};

const graceOver: Fault = {
  name: 'deployment, grace over',
  what: 'SIGTERM of the holder, whose work outlasts the grace and writes after it, while all others wait',
  ablation: 'release at shutdown',
  breaks: 'wait',
  terms: leases(12_000, { waitMs: 14_000, shutdownGraceMs: 500 }),
  promises: { waitMs: 6_000, losesHolds: true, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 3_000, { lookAfterMs: 50 });
    await fleet.looked(holder);
    await fleet.allWait(holder);
    scene.injected(this.name);
    holder.terminate();
    await fleet.entry((member) => member !== holder);
    scene.healed(this.name);
    await fleet.gone(holder);
    await scene.settle();
    await fleet.join();
  },
};

export const deploymentFaults = [deployed, graceOver] as const;

/** The member that shuts down, and the one that holds the lock. */
interface Leave {
  readonly member: Member;
  readonly holder: Member;
}

/** Shuts a member down while the holder has the lock for long and all others wait. */
async function shutDown(scene: Scene, name: string, { member, holder }: Leave): Promise<void> {
  const { fleet } = scene;
  await fleet.longHold(holder, HOLD_MS);
  await fleet.allWait(holder);
  scene.injected(name);
  member.terminate();
  scene.healed(name);
  await fleet.gone(member);
  await fleet.longHoldsEnd();
}
