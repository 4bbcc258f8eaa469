import type { DefenceName } from '../ablations.js';
import type { HoldDetails } from '../fleet/fleet.js';
import type { Breach } from '../history/promises.js';
import {
  ClusterTopology,
  PartitionTopology,
  SentinelTopology,
  type Succession,
  type Topology,
} from '../topology/index.js';
import type { LockTerms } from '../workload/orders.js';
import { type Fault, leases } from './fault.js';

/**
 * Masters whose place is taken by a replica. On the default store: `timestamp` and `quorum` have nothing to add, and Redisson's
 * tokens are counted by a server that forgets its count.
 */

/** What is on trial when the last grant is lost with its master. */
const TRIALS: readonly { readonly lost: string; readonly defence: DefenceName; readonly breaks: Breach }[] = [
  { lost: 'grant', defence: 'fence', breaks: 'fenced update lost' },
  { lost: 'token', defence: 'tokens by the clock', breaks: 'token' },
];

const NO_END_MS = 60_000;
const REPLICAS = { min: 1, timeoutMs: 100 };

const SUCCESSIONS: Record<'sentinel' | 'cluster', { readonly name: string; readonly kind: Kind }> = {
  sentinel: { name: 'Sentinel failover', kind: SentinelTopology },
  cluster: { name: 'cluster failover', kind: ClusterTopology },
};
type Kind = { readonly prototype: Topology & Succession; readonly name: string };

function lastGrantLost(on: keyof typeof SUCCESSIONS): readonly Fault[] {
  const { name, kind } = SUCCESSIONS[on];
  return TRIALS.map(({ lost, defence, breaks }) => ({
    name: `${name}, last ${lost} lost`,
    what: 'kill -9 of the master, whose last grant no replica has got, and whose place one takes; the holder writes when others have',
    defence,
    breaks,
    terms: leases(3_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
    promises: { waitMs: 12_000, refuses: true, losesHolds: true, overlapMs: Infinity },
    stores: { token: {} },
    on,
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
      await scene.dataLost(() => scene.on(kind).failOverWithout(lastGrant));
      scene.healed(this.name);
      await fleet.written(holder);
      await scene.settle(holder);
    },
  }));
}

/** What no replica has got is no grant. */
const acknowledged = (ttlMs: number, more: Partial<LockTerms> = {}) =>
  ({
    defence: 'acknowledgement of replicas',
    terms: leases(ttlMs, { requestTimeoutMs: 500, replicas: REPLICAS, ...more }),
    stores: { token: {} },
  }) as const;

export function replicasAsked(how: HoldDetails = {}): Fault {
  return {
    name: 'Sentinel failover, replicas: { min: 1 }',
    what: 'the same, but what no replica has got is no grant: nothing can be lost with the master',
    breaks: 'update lost',
    ...acknowledged(3_000, { waitMs: 20_000 }),
    promises: { waitMs: 12_000, refuses: true, keepsUpdates: true },
    on: 'sentinel',
    async inject(scene) {
      const { fleet, random } = scene;
      await fleet.rest();
      const asker = fleet.other(random);
      const lastGrant = async (): Promise<void> => {
        asker.tell({ kind: 'hold', ms: NO_END_MS, lookAfterMs: 50, ...how });
        fleet.go([asker]);
        await scene.sleep(1_000);
        fleet.go();
        await scene.sleep(200);
      };
      scene.injected(this.name);
      await scene.on(SentinelTopology).failOverWithout(lastGrant);
      scene.healed(this.name);
      if (asker.busy) await fleet.written(asker);
      await scene.settle(asker);
    },
  };
}

/** The replica that takes the master's place knows the lock and the queue: the holder keeps the one, and whoever waits gets it. */
function keptThrough(
  name: string,
  what: string,
  leaseMs: number,
  replaced: (on: ClusterTopology) => Promise<void>,
): Fault {
  return {
    name,
    what,
    defence: 'following slots',
    breaks: 'hold lost',
    terms: leases(leaseMs, { requestTimeoutMs: 500, waitMs: 30_000 }),
    promises: { waitMs: leaseMs + 8_000, refuses: true, keepsUpdates: true },
    stores: { token: {} },
    on: 'cluster',
    async inject(scene) {
      const { fleet, random } = scene;
      const holder = fleet.other(random);
      // It lives on renewals that the next master answers.
      await fleet.longHold(holder, leaseMs + 2_000);
      await fleet.allWait(holder);
      scene.injected(this.name);
      await replaced(scene.on(ClusterTopology));
      scene.healed(this.name);
      await scene.settle();
    },
  };
}

const oldMasterWritable: Fault = {
  name: 'partition, old master writable',
  what: 'some stay with the old master, which knows nothing of the next one that all others go to; locks are given by both',
  defence: 'fence',
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
      // Its hold outlasts the partition, and is too long to be passed on without its master (`maxLocalHoldMs`): so tokens are
      // given by one master at a time, and can be compared. Those of two at a time are in no order.
      await fleet.longHold(next, NO_END_MS);
      await scene.sleep(100);
      const again = fleet.entry((member) => member === holder);
      holder.tell({ kind: 'end' });
      await again;
      await servers.rejoin();
    });
    scene.healed(this.name);
    await scene.settle(next);
  },
};

const partitionSeen: Fault = {
  name: 'partition, replicas: { min: 1 }',
  what: 'the same, but the old master gives and renews no lock that no replica acknowledges',
  breaks: 'overlap',
  ...acknowledged(900),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true, keepsUpdates: true },
  on: 'partition',
  async inject(scene) {
    const { fleet, random } = scene;
    const servers = scene.on(PartitionTopology);
    const holder = fleet.other(random);
    // The look in its middle comes when the lease must be over.
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

export const failoverFaults = [
  ...lastGrantLost('sentinel'),
  replicasAsked(),
  ...lastGrantLost('cluster'),
  keptThrough(
    'cluster master killed',
    'kill -9 of the master while the lock is held and waited for',
    8_000,
    (cluster) => cluster.failOver(),
  ),
  keptThrough(
    'CLUSTER FAILOVER',
    'the master changes places with its replica while the lock is held and waited for',
    4_000,
    (cluster) => cluster.resign(),
  ),
  oldMasterWritable,
  partitionSeen,
] as const;
