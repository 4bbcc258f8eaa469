import type { HoldDetails } from '../fleet/fleet.js';
import type { Scene } from '../scene.js';
import { among, type Fault, leases } from './fault.js';

/** Faults of a server whose memory is full. */

const LEASE_MS = 2_500;
/** Longer than the lease, so that the holds need renewals without memory. */
const HOLD_MS = 3_500;

/** @param holders how many members hold the lock: enough to make all others wait. */
function outOfMemory(holders = 1, how: HoldDetails = {}): Fault {
  return {
    name: 'maxmemory, noeviction',
    what: 'the server refuses writes that need memory while the lock is renewed and released',
    ablation: 'renewals without memory',
    breaks: 'hold lost',
    terms: leases(LEASE_MS),
    // Without a release, the lock would stay closed for a lease after the fault.
    promises: { waitMs: 9_000, freeMs: 1_800, refuses: true, keepsUpdates: true },
    stores: {
      token: {},
      timestamp: { keepsUpdates: undefined },
      redisson: {},
      quorum: {},
    },
    async inject(scene) {
      const { fleet, random } = scene;
      const members = fleet.some(holders, random);
      await fleet.longHolds(members, HOLD_MS, how);
      await fleet.allWait(...members);
      scene.injected(this.name);
      await limitMemory(scene, '1');
      await fleet.longHoldsEnd();
      await scene.sleep(200);
      await limitMemory(scene, '0');
      scene.healed(this.name);
      await scene.settle();
    },
  };
}

export const memoryFaults = [outOfMemory(), among('readers', outOfMemory(2, { reader: true }))] as const;

function limitMemory({ topology }: Scene, bytes: string): Promise<unknown> {
  return Promise.all(topology.servers.map(({ admin }) => admin.config('SET', 'maxmemory', bytes)));
}
