import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterTopology, PartitionTopology, SentinelTopology } from '../topology/index.js';
import { type Fault, freeFor, LATE_WRITER, leases, NO_END_MS } from './fault.js';

const REPLICAS = { min: 1, timeoutMs: 100 };
const LEASE_MS = 8_000;
const LOST = { losesHolds: true, overlapMs: Infinity } as const;

/**
 * Faults in which a replica takes a master's place, on the token store. `timestamp` and `quorum` add nothing to them.
 * Redisson's tokens are counted by a server that forgets its count.
 */
export const failoverFaults: readonly Fault[] = [
  {
    name: 'Sentinel failover, last grant lost',
    what: 'kill -9 of a master whose last grant no replica has; one takes its place; the holder writes late',
    control: { without: 'fence', breaks: 'fenced update lost' },
    terms: leases(3_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
    promises: { waitMs: 12_000, freeMs: freeFor(3_000), refuses: true, ...LOST },
    on: 'sentinel',
    async inject(scene) {
      const { fleet } = scene;
      await fleet.rest();
      const holder = fleet.other();
      const lastGrant = async (): Promise<void> => {
        await fleet.longHoldAlone([holder], NO_END_MS, { lookAfterMs: 50 });
        await fleet.looked(holder);
        fleet.go();
        await fleet.allWait(holder);
      };
      await scene.lose('dataLost', () => scene.on(SentinelTopology).failOverWithout(lastGrant));
      scene.healed();
      await fleet.written(holder);
      holder.end();
    },
  },
  {
    name: 'Sentinel failover, replicas: { min: 1 }',
    what: 'as above, but a grant counts only if a replica has it: nothing is lost with the master',
    control: { without: 'acknowledgement of replicas', breaks: 'update lost' },
    terms: leases(3_000, { requestTimeoutMs: 500, waitMs: 20_000, replicas: REPLICAS }),
    promises: { waitMs: 12_000, freeMs: freeFor(3_000), refuses: true, keepsUpdates: true },
    on: 'sentinel',
    async inject(scene) {
      const { fleet } = scene;
      await fleet.rest();
      const caller = fleet.other();
      const lastGrant = async (): Promise<void> => {
        caller.send({ kind: 'hold', ms: NO_END_MS, lookAfterMs: 50 });
        fleet.go([caller]);
        await sleep(1_000);
        fleet.go();
        await sleep(200);
      };
      await scene.on(SentinelTopology).failOverWithout(lastGrant);
      scene.healed();
      if (caller.busy) await fleet.written(caller);
      caller.end();
    },
  },
  {
    name: 'cluster master killed',
    what: 'kill -9 of the master while the lock is held and waited for; a replica with all data takes its place',
    control: { without: 'following slots', breaks: 'hold lost' },
    terms: leases(LEASE_MS, { requestTimeoutMs: 500, waitMs: 30_000 }),
    promises: { waitMs: LEASE_MS + 8_000, freeMs: freeFor(LEASE_MS), refuses: true, keepsUpdates: true },
    on: 'cluster',
    // The lease outlasts the fault only by renewals on the new master.
    held: { ms: LEASE_MS + 2_000, waitedFor: true },
    inject: (scene) => scene.on(ClusterTopology).failOver(),
  },
  {
    name: 'partition, old master writable',
    what: 'some processes stay with the old master, all others go to the new one; both grant locks',
    control: { without: 'fence', breaks: 'fenced update lost' },
    terms: leases(900, { requestTimeoutMs: 500 }),
    promises: { waitMs: 8_000, refuses: true, ...LOST },
    on: 'partition',
    held: LATE_WRITER,
    async inject(scene, holder) {
      const { fleet } = scene;
      const servers = scene.on(PartitionTopology);
      const next = fleet.other(holder);
      await scene.lose('dataLost', async () => {
        await servers.part(holder.ways);
        await fleet.written(holder);
        // This hold outlasts the partition, and is too long to be passed on (`maxLocalHoldMs`). Therefore only one
        // master grants tokens at a time. Tokens of two masters at a time cannot be compared.
        await fleet.longHold(next, NO_END_MS);
        await sleep(100);
        const again = fleet.entry([holder]);
        holder.end();
        await again;
        // A lease of the old master would be passed on beside a lease of the new one.
        await fleet.rest([holder]);
        await servers.rejoin();
      });
      fleet.go([holder]);
      next.end();
    },
  },
  {
    name: 'partition, replicas: { min: 1 }',
    what: 'the same, but the old master grants and renews no lock without an acknowledgement by a replica',
    control: { without: 'acknowledgement of replicas', breaks: 'overlap' },
    terms: leases(900, { requestTimeoutMs: 500, replicas: REPLICAS }),
    promises: { waitMs: 8_000, refuses: true, losesHolds: true, keepsUpdates: true },
    on: 'partition',
    // The check in the middle of the hold comes when the lease must be over.
    held: { ms: 4_000 },
    async inject(scene, holder) {
      const servers = scene.on(PartitionTopology);
      await servers.part(holder.ways);
      await scene.fleet.written(holder);
      await scene.fleet.longHoldsEnd();
      await sleep(300);
      await servers.rejoin();
    },
  },
  {
    name: 'two Sentinel failovers in a row',
    what: 'kill -9 of the master, which comes back as a replica; 2.5 s later SENTINEL FAILOVER replaces the next master',
    control: { without: 'retry while queued', breaks: 'wait' },
    terms: leases(LEASE_MS, { requestTimeoutMs: 1_000, waitMs: 40_000 }),
    promises: { waitMs: 30_000, freeMs: freeFor(LEASE_MS), refuses: true, ...LOST },
    on: 'sentinel',
    async inject(scene) {
      const servers = scene.on(SentinelTopology);
      await scene.lose('dataLost', () => servers.failOver());
      scene.healed();
      await sleep(2_500);
      scene.injected();
      await scene.lose('dataLost', () => servers.replace());
    },
  },
];
