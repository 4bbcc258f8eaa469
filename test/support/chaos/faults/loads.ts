import { setTimeout as sleep } from 'node:timers/promises';
import type { Scene } from '../scene.js';
import { ClusterTopology } from '../topology/index.js';
import type { ClientName } from '../workload/orders.js';
import { failoverFaults } from './failovers.js';
import { type Fault, freeFor, leases, named, OTHERS } from './fault.js';
import { networkFaults } from './network.js';
import { processFaults } from './processes.js';
import { serverFaults } from './servers.js';

/** How long a visit may wait on top of its `waitMs`: one reply. */
const REPLY_MS = 4_000;
const WAITED_MS = 10_000;
const TERMS = { requestTimeoutMs: 500, waitMs: WAITED_MS };

/** Faults that keep the servers' data: the lock must hold throughout. */
const HARMLESS = [
  ...processFaults,
  ...networkFaults,
  ...named(serverFaults, 'server stopped', 'server killed', 'SCRIPT FLUSH'),
];

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

const dataKept: Fault = {
  name: 'mixed, data kept',
  what: 'all faults without data loss, one after another, in an order chosen by the seed',
  control: { without: 'local deadline', breaks: 'overlap' },
  terms: leases(1_000, { requestTimeoutMs: 500 }),
  promises: { waitMs: 8_000 + REPLY_MS, refuses: true, losesHolds: true },
  durable: true,
  inject: (scene) => oneAfterAnother(scene, HARMLESS),
};

const severalKept: Fault = {
  name: 'mixed, several locks at a time',
  what: 'faults without data loss, while callers lock several resources, exclusively or shared, and take permits',
  control: { without: 'local deadline', breaks: 'overlap' },
  terms: leases(1_000, { ...TERMS, waitMs: 20_000 }),
  promises: { waitMs: 24_000, refuses: true, losesHolds: true },
  workload: 'several',
  inject: (scene) => oneAfterAnother(scene, SURVIVED),
};

/** Redirections come while each process has six requests or holds, and a slot moves while a renewal is needed. */
const slotMoved: Fault = {
  name: 'cluster slot moved under load',
  what: "the lock's slot moves while it is held, and again while all take turns; nodes reply ASK, TRYAGAIN and MOVED",
  control: { without: 'following slots', breaks: 'hold lost' },
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 40_000 }),
  // The hold, and a turn of each of the 24 callers before it and after it.
  promises: { waitMs: 20_000, freeMs: freeFor(2_000), refuses: true, keepsUpdates: true },
  workload: 'crowd',
  on: 'cluster',
  // The lease outlasts the move only by renewals on the next node.
  held: { ms: 5_000, waitedFor: true },
  async inject(scene) {
    const cluster = scene.on(ClusterTopology);
    await cluster.moveSlot();
    scene.healed();
    await scene.settle();
    scene.injected();
    await cluster.moveSlot();
  },
};

/** Mixed faults, and faults under another load: short leases, many passes, several locks, other clients. */
export const loadFaults: readonly Fault[] = [
  {
    ...dataKept,
    name: 'mixed, detached and resumed',
    control: { without: 'tokens of tickets', breaks: 'token' },
    workload: 'tickets',
  },
  dataKept,
  {
    ...dataKept,
    name: 'mixed, leases of 300 ms',
    what: 'faults without data loss, one after another, in an order chosen by the seed',
    terms: leases(300, TERMS),
    promises: { waitMs: WAITED_MS + REPLY_MS, refuses: true, losesHolds: true },
    others: OTHERS,
    inject: (scene) => oneAfterAnother(scene, SURVIVED),
  },
  {
    name: 'mixed, data lost, 256 local passes',
    what: 'faults of processes, and faults that take the lock away from its holder, in an order chosen by the seed',
    control: { without: 'fence', breaks: 'fenced update lost' },
    // Harder than what `fairness` allows: one process may keep the lock for a second.
    terms: leases(1_000, { ...TERMS, passing: { maxLocalPasses: 256, maxLocalHoldMs: 1_000 } }),
    promises: { waitMs: WAITED_MS + REPLY_MS, refuses: true, losesHolds: true, overlapMs: Infinity },
    workload: 'crowd',
    inject: (scene) => oneAfterAnother(scene, LOSSES),
  },
  severalKept,
  {
    // An exclusive lock that was handed off is requested alone, so that this needs readers.
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
  },
  ...withClients(dataKept, 'ioredis 5', 'ioredis, resends', 'node-redis'),
  ...withClients(named(networkFaults, 'half-open: replies lost')[0], 'ioredis, resends', 'node-redis'),
  ...withClients(named(failoverFaults, 'cluster master killed')[0], 'ioredis 5', 'ioredis, resends', 'node-redis'),
  slotMoved,
  ...withClients(slotMoved, 'ioredis, resends', 'node-redis'),
];

/**
 * Returns the same fault with each client. Reconnecting after each kind of failure is the client's part, and so is what
 * happens to requests without a reply.
 */
function withClients(fault: Fault, ...clients: readonly ClientName[]): readonly Fault[] {
  return clients.map((client) => ({ ...fault, name: `${fault.name}, ${client}`, others: {}, client }));
}

/** Injects the faults one after another, in an order chosen by the seed. */
async function oneAfterAnother(scene: Scene, faults: readonly Fault[]): Promise<void> {
  const left = [...faults];
  while (left.length > 0) {
    const [next] = left.splice(Math.floor(scene.fleet.random() * left.length), 1);
    await scene.inject(next);
    await sleep(scene.fleet.random() * 300);
  }
}
