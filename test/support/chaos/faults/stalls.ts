import { ALL_STORES, type Fault, leases } from './fault.js';

/** A fault that keeps a living server from serving. */

const debugSleep: Fault = {
  name: 'DEBUG SLEEP',
  what: 'the server sleeps for longer than the lease, after the last check of the lock; the holder writes late',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(900, { requestTimeoutMs: 500 }),
  promises: { waitMs: 6_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000, { lookAfterMs: 50 });
    await fleet.looked(holder);
    scene.injected(this.name);
    await Promise.all(scene.topology.servers.map(({ admin }) => admin.call('DEBUG', 'SLEEP', '1.5')));
    scene.healed(this.name);
    await fleet.written(holder);
    await scene.settle();
  },
};

export const stallFaults = [debugSleep] as const;
