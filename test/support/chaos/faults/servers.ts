import type { HoldDetails } from '../fleet/fleet.js';
import { keyOf } from '../workload/key.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of the lock's servers. Of several masters, one is hit. */

const REQUEST_MS = 500;

const serverStopped: Fault = {
  name: 'server stopped',
  what: 'SIGSTOP with a request in its socket, whose process is killed; SIGCONT when its time is over',
  ablation: 'lease',
  breaks: 'wait',
  terms: leases(2_000, { requestTimeoutMs: REQUEST_MS, waitMs: 14_000 }),
  // The request runs, and keeps the lock closed for its lease.
  promises: { waitMs: 5_000, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    scene.injected(this.name);
    scene.victim.server.pause();
    fleet.go([caller]);
    await scene.sleep(REQUEST_MS / 2);
    await caller.kill();
    await scene.sleep(REQUEST_MS);
    scene.victim.server.resume();
    fleet.go();
    scene.healed(this.name);
    await scene.settle();
    await fleet.join();
  },
};

const serverKilled: Fault = {
  name: 'server killed',
  what: 'kill -9 and a restart with its data; the hold ends while it is down',
  ablation: 'repeated releases',
  breaks: 'wait',
  terms: leases(12_000, { requestTimeoutMs: REQUEST_MS, waitMs: 16_000 }),
  promises: { waitMs: 8_000, refuses: true },
  stores: ALL_STORES,
  durable: true,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 600);
    scene.injected(this.name);
    await scene.victim.server.kill();
    await scene.sleep(1_000);
    await scene.victim.server.restart();
    scene.healed(this.name);
    await scene.settle();
  },
};

const restartedEmpty: Fault = {
  name: 'server restarted empty',
  what: 'kill -9 and a restart without its data, while the lock is held',
  ablation: 'tokens by the clock',
  breaks: 'token',
  terms: leases(900, { requestTimeoutMs: REQUEST_MS }),
  promises: { waitMs: 6_000, refuses: true, losesHolds: true, overlapMs: Infinity },
  // The documentation of `quorum` warns of it: the next majority need not know what one of three forgot.
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.longHold(fleet.other(random), 2_000);
    await scene.sleep(1_100);
    scene.injected(this.name);
    await scene.dataLost(() => scene.victim.server.restart());
    scene.healed(this.name);
    await scene.settle();
  },
};

const flushed: Fault = {
  name: 'FLUSHALL',
  what: 'all data is flushed while the lock is held, after the last check of it',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(900),
  promises: { waitMs: 6_000, losesHolds: true, overlapMs: Infinity },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000);
    await fleet.looked(holder);
    scene.injected(this.name);
    await scene.dataLost(() => Promise.all(scene.topology.servers.map(({ admin }) => admin.flushall())));
    scene.healed(this.name);
    await fleet.entry((member) => member !== holder);
    await scene.settle();
  },
};

/** @param keys the keys that are deleted. */
export function keyDeleted(holders = 1, how: HoldDetails = {}, keys: readonly string[] = [keyOf()]): Fault {
  return {
    name: 'key deleted by hand',
    what: "DEL of the lock's key while it is held; the next holder holds it for long",
    ablation: 'owner check of renewals',
    breaks: 'overlap',
    terms: leases(900),
    // Until the next renewal, after a third of the lease.
    promises: { waitMs: 6_000, losesHolds: true, overlapMs: 700 },
    // The timestamp protocol has no owner in its values: a renewal takes another holder's value for its own.
    stores: { ...ALL_STORES, timestamp: { overlapMs: Infinity } },
    async inject(scene) {
      const { fleet, random } = scene;
      const members = fleet.some(holders, random);
      const next = fleet.other(random, ...members);
      await fleet.longHolds(members, 3_500, how);
      scene.injected(this.name);
      await scene.deleteLock(() => Promise.all(scene.topology.servers.map(({ admin }) => admin.del(...keys))));
      scene.healed(this.name);
      await fleet.longHold(next, 1_800);
      await scene.settle();
    },
  };
}

const scriptsFlushed: Fault = {
  name: 'SCRIPT FLUSH',
  what: 'SCRIPT FLUSH on all servers, several times',
  ablation: 'scripts sent again',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 5_000 },
  stores: ALL_STORES,
  async inject(scene) {
    scene.injected(this.name);
    for (let i = 0; i < 5; i += 1) {
      await Promise.all(scene.topology.servers.map(({ admin }) => admin.script('FLUSH')));
      await scene.sleep(scene.random() * 100);
    }
    scene.healed(this.name);
    await scene.settle();
  },
};

export const serverFaults = [
  serverStopped,
  serverKilled,
  restartedEmpty,
  flushed,
  keyDeleted(),
  scriptsFlushed,
] as const;
