import { ClusterTopology, PartitionTopology, SentinelTopology } from '../topology/index.js';
import type { LockTerms } from '../workload/orders.js';
import { type Fault, freeFor, leases } from './fault.js';

/**
 * Faults in which a replica takes a master's place, on the token store. `timestamp` and `quorum` add nothing to them.
 * Redisson's tokens are counted by a server that forgets its count.
 */

const NO_END_MS = 60_000;
const REPLICAS = { min: 1, timeoutMs: 100 };

const lastGrantLost: Fault = {
  name: 'Sentinel failover, last grant lost',
  what: 'kill -9 of a master whose last grant no replica has; one takes its place; the holder writes late',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(3_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
  promises: { waitMs: 12_000, freeMs: freeFor(3_000), refuses: true, losesHolds: true, overlapMs: Infinity },
  stores: { token: {} },
  on: 'sentinel',
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const holder = fleet.other(random);
    const lastGrant = async (): Promise<void> => {
      const held = fleet.longHold(holder, NO_END_MS, { lookAfterMs: 50 });
      fleet.go([holder]);
      await held;
      await fleet.looked(holder);
      fleet.go();
      await fleet.allWait(holder);
    };
    scene.injected(this.name);
    await scene.dataLost(() => scene.on(SentinelTopology).failOverWithout(lastGrant));
    scene.healed(this.name);
    await fleet.written(holder);
    await scene.settle(holder);
  },
};

/** A grant counts only if a replica has it. */
const acknowledged = (ttlMs: number, more: Partial<LockTerms> = {}) =>
  ({
    ablation: 'acknowledgement of replicas',
    terms: leases(ttlMs, { requestTimeoutMs: 500, replicas: REPLICAS, ...more }),
    stores: { token: {} },
  }) as const;

const replicasAsked: Fault = {
  name: 'Sentinel failover, replicas: { min: 1 }',
  what: 'as above, but a grant counts only if a replica has it: nothing is lost with the master',
  breaks: 'update lost',
  ...acknowledged(3_000, { waitMs: 20_000 }),
  promises: { waitMs: 12_000, freeMs: freeFor(3_000), refuses: true, keepsUpdates: true },
  on: 'sentinel',
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    const lastGrant = async (): Promise<void> => {
      caller.send({ kind: 'hold', ms: NO_END_MS, lookAfterMs: 50 });
      fleet.go([caller]);
      await scene.sleep(1_000);
      fleet.go();
      await scene.sleep(200);
    };
    scene.injected(this.name);
    await scene.on(SentinelTopology).failOverWithout(lastGrant);
    scene.healed(this.name);
    if (caller.busy) await fleet.written(caller);
    await scene.settle(caller);
  },
};

const LEASE_MS = 8_000;

const masterKilled: Fault = {
  name: 'cluster master killed',
  what: 'kill -9 of the master while the lock is held and waited for; a replica with all data takes its place',
  ablation: 'following slots',
  breaks: 'hold lost',
  terms: leases(LEASE_MS, { requestTimeoutMs: 500, waitMs: 30_000 }),
  promises: { waitMs: LEASE_MS + 8_000, freeMs: freeFor(LEASE_MS), refuses: true, keepsUpdates: true },
  stores: { token: {} },
  on: 'cluster',
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    // The lease outlasts the fault only by renewals on the new master.
    await fleet.longHold(holder, LEASE_MS + 2_000);
    await fleet.allWait(holder);
    scene.injected(this.name);
    await scene.on(ClusterTopology).failOver();
    scene.healed(this.name);
    await scene.settle();
  },
};

const oldMasterWritable: Fault = {
  name: 'partition, old master writable',
  what: 'some processes stay with the old master, all others go to the new one; both grant locks',
  ablation: 'fence',
  breaks: 'fenced update lost',
  terms: leases(900, { requestTimeoutMs: 500 }),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true, overlapMs: Infinity },
  stores: { token: {} },
  on: 'partition',
  async inject(scene) {
    const { fleet, random } = scene;
    const servers = scene.on(PartitionTopology);
    const holder = fleet.other(random);
    const next = fleet.other(random, holder);
    await fleet.longHold(holder, NO_END_MS, { lookAfterMs: 50 });
    await fleet.looked(holder);
    scene.injected(this.name);
    await scene.dataLost(async () => {
      await servers.part(holder.ways);
      await fleet.written(holder);
      // This hold outlasts the partition, and is too long to be passed on (`maxLocalHoldMs`). Therefore only one master
      // grants tokens at a time. Tokens of two masters at a time cannot be compared.
      await fleet.longHold(next, NO_END_MS);
      await scene.sleep(100);
      const again = fleet.entry((member) => member === holder);
      holder.send({ kind: 'end' });
      await again;
      // A lease of the old master would be passed on beside a lease of the new one.
      await fleet.rest([holder]);
      await servers.rejoin();
    });
    fleet.go([holder]);
    scene.healed(this.name);
    await scene.settle(next);
  },
};

const partitionSeen: Fault = {
  name: 'partition, replicas: { min: 1 }',
  what: 'the same, but the old master grants and renews no lock without an acknowledgement by a replica',
  breaks: 'overlap',
  ...acknowledged(900),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true, keepsUpdates: true },
  on: 'partition',
  async inject(scene) {
    const { fleet, random } = scene;
    const servers = scene.on(PartitionTopology);
    const holder = fleet.other(random);
    // The check in the middle of the hold comes when the lease must be over.
    await fleet.longHold(holder, 4_000);
    scene.injected(this.name);
    await servers.part(holder.ways);
    await fleet.written(holder);
    await fleet.longHoldsEnd();
    await scene.sleep(300);
    await servers.rejoin();
    scene.healed(this.name);
    await scene.settle();
  },
};

const failedOverTwice: Fault = {
  name: 'two Sentinel failovers in a row',
  what: 'kill -9 of the master, which comes back as a replica; 2.5 s later SENTINEL FAILOVER replaces the next master',
  ablation: 'retry while queued',
  breaks: 'wait',
  terms: leases(LEASE_MS, { requestTimeoutMs: 1_000, waitMs: 40_000 }),
  promises: { waitMs: 30_000, freeMs: freeFor(LEASE_MS), refuses: true, losesHolds: true, overlapMs: Infinity },
  stores: { token: {} },
  on: 'sentinel',
  async inject(scene) {
    const servers = scene.on(SentinelTopology);
    scene.injected(this.name);
    await scene.dataLost(() => servers.failOver());
    scene.healed(this.name);
    await scene.sleep(2_500);
    scene.injected(this.name);
    await scene.dataLost(() => servers.replace());
    scene.healed(this.name);
    await scene.settle();
  },
};

export const failoverFaults = [
  lastGrantLost,
  replicasAsked,
  masterKilled,
  oldMasterWritable,
  partitionSeen,
  failedOverTwice,
] as const;
