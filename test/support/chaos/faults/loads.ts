import { ClusterTopology } from '../topology/index.js';
import type { ClientName } from '../workload/orders.js';
import { failoverFaults } from './failovers.js';
import { ALL_STORES, type Fault, freeFor, leases } from './fault.js';
import { networkFaults } from './network.js';
import { processFaults } from './processes.js';
import { named, oneAfterAnother } from './sequence.js';
import { serverFaults } from './servers.js';

/** Mixed faults, and faults under another load: short leases, many passes, several locks, other clients. */

/** How long a visit may wait on top of its `waitMs`: one reply. */
const REPLY_MS = 4_000;

/** Faults that keep the servers' data: the lock must hold throughout. */
const HARMLESS = [
  ...processFaults,
  ...networkFaults,
  ...named(serverFaults, 'server stopped', 'server killed', 'SCRIPT FLUSH'),
];

export const dataKept: Fault = {
  name: 'mixed, data kept',
  what: 'all faults without data loss, one after another, in an order chosen by the seed',
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(1_000, { requestTimeoutMs: 500 }),
  promises: { waitMs: 8_000 + REPLY_MS, refuses: true, losesHolds: true },
  stores: { token: {} },
  durable: true,
  inject: (scene) => oneAfterAnother(scene, HARMLESS),
};

/** None of these needs a hold that lives on: with a short lease, a busy machine may end any hold. */
const SURVIVED = [
  ...named(processFaults, 'event loop blocked', 'holder killed', 'waiter killed'),
  ...named(networkFaults, 'connections ended', 'half-open: replies lost', 'half-open: requests lost', 'replies held'),
  ...named(serverFaults, 'server stopped', 'SCRIPT FLUSH'),
];

/** A stopped holder whose lease is over, and losses of the server. */
const LOSSES = [
  ...named(processFaults, 'holder stopped', 'event loop blocked', 'holder killed'),
  ...named(networkFaults, 'half-open: requests lost'),
  ...named(serverFaults, 'FLUSHALL', 'server restarted empty', 'key deleted by hand'),
];

const WAITED_MS = 10_000;
const TERMS = { requestTimeoutMs: 500, waitMs: WAITED_MS };

const shortLeases: Fault = {
  name: 'mixed, leases of 300 ms',
  what: 'faults without data loss, one after another, in an order chosen by the seed',
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(300, TERMS),
  promises: { waitMs: WAITED_MS + REPLY_MS, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  inject: (scene) => oneAfterAnother(scene, SURVIVED),
};

const manyPasses: Fault = {
  name: 'mixed, data lost, 256 local passes',
  what: 'faults of processes, and faults that take the lock away from its holder, in an order chosen by the seed',
  ablation: 'fence',
  breaks: 'fenced update lost',
  // Harder than what `fairness` allows: one process may keep the lock for a second.
  terms: leases(1_000, { ...TERMS, passing: { maxLocalPasses: 256, maxLocalHoldMs: 1_000 } }),
  promises: { waitMs: WAITED_MS + REPLY_MS, refuses: true, losesHolds: true, overlapMs: Infinity },
  stores: { token: {} },
  workload: 'crowd',
  inject: (scene) => oneAfterAnother(scene, LOSSES),
};

/** Reconnecting after each kind of failure is the client's part, and so is what happens to requests without a reply. */
const CLIENTS: readonly ClientName[] = ['ioredis 5', 'ioredis, resends', 'node-redis'];

/** Returns the same fault with each client. */
function withClients(fault: Fault, clients = CLIENTS): readonly Fault[] {
  return clients.map((client) => {
    return { ...fault, name: `${fault.name}, ${client}`, stores: { token: {} }, client };
  });
}

/** Redirections come while each process has six requests or holds, and a slot moves while a renewal is needed. */
const slotMoved: Fault = {
  name: 'cluster slot moved under load',
  what: "the lock's slot moves while it is held, and again while all take turns; nodes reply ASK, TRYAGAIN and MOVED",
  ablation: 'following slots',
  breaks: 'hold lost',
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 40_000 }),
  // The hold, and a turn of each of the 24 callers before it and after it.
  promises: { waitMs: 20_000, freeMs: freeFor(2_000), refuses: true, keepsUpdates: true },
  stores: { token: {} },
  workload: 'crowd',
  on: 'cluster',
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    const moveSlot = async (): Promise<void> => {
      scene.injected(this.name);
      await scene.on(ClusterTopology).moveSlot();
      scene.healed(this.name);
      await scene.settle();
    };
    // The lease outlasts the move only by renewals on the next node.
    await fleet.longHold(holder, 5_000);
    await fleet.allWait(holder);
    await moveSlot();
    await moveSlot();
  },
};

const severalKept: Fault = {
  name: 'mixed, several locks at a time',
  what: 'faults without data loss, while callers lock several resources, exclusively or shared, and take permits',
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(1_000, { ...TERMS, waitMs: 20_000 }),
  promises: { waitMs: 24_000, refuses: true, losesHolds: true },
  stores: { token: {} },
  workload: 'several',
  inject: (scene) => oneAfterAnother(scene, SURVIVED),
};

/** An exclusive lock that was handed off is requested alone, so that this needs readers. */
const batched: Fault = {
  ...severalKept,
  name: 'mixed, in batches',
  what: 'faults without data loss, while readers and writers request 20 other locks in the same tick',
  workload: 'batches',
  // A writer whose event loop was blocked past its lease may tear the reading of a reader that has the lock by then.
  inject: (scene) =>
    oneAfterAnother(
      scene,
      SURVIVED.filter(({ name }) => name !== 'event loop blocked'),
    ),
};

export const loadFaults = [
  dataKept,
  shortLeases,
  manyPasses,
  severalKept,
  batched,
  ...withClients(dataKept),
  ...withClients(named(networkFaults, 'half-open: replies lost')[0], ['ioredis, resends', 'node-redis']),
  ...named(failoverFaults, 'cluster master killed').flatMap((fault) => withClients(fault)),
  slotMoved,
  ...withClients(slotMoved, ['ioredis, resends', 'node-redis']),
] as const;
