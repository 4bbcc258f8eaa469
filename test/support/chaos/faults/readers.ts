import { eventually } from '../../redis-locks.js';
import type { Scene } from '../scene.js';
import { ClusterTopology } from '../topology/index.js';
import { holdersOf, keyOf, queueOf } from '../workload/key.js';
import { among, type Fault, freeFor, leases } from './fault.js';
import { killed } from './processes.js';
import { keyDeleted } from './servers.js';
import { rush } from './sharing.js';

/** Faults of a lock that readers share and writers hold exclusively. */

const READER = { reader: true } as const;
const AMONG_READERS = { stores: { token: {} }, workload: 'readers' } as const;

const readerStopped: Fault = {
  name: 'reader stopped',
  what: 'SIGSTOP of a reader past its lease, after its last check; SIGCONT while the second writer holds the lock',
  ablation: 'owner check of releases',
  breaks: 'overlap',
  terms: leases(600),
  promises: { waitMs: 5_000, losesHolds: true },
  ...AMONG_READERS,
  async inject(scene) {
    const { fleet, random } = scene;
    const [reader, first, second] = fleet.some(3, random);
    await fleet.longHold(reader, 500, READER);
    await fleet.looked(reader);
    scene.injected(this.name);
    reader.stop();
    await fleet.longHold(first, 50);
    await fleet.longHold(second, 800);
    await scene.sleep(100);
    reader.goOn();
    scene.healed(this.name);
    await scene.settle();
  },
};

const readersKilled: Fault = {
  name: 'readers killed',
  what: 'kill -9 of two readers, while all others wait for them',
  ablation: 'leases of sharers',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 5_000 },
  ...AMONG_READERS,
  async inject(scene) {
    const { fleet, random } = scene;
    const victims = fleet.some(2, random);
    await fleet.longHolds(victims, 20_000, READER);
    await fleet.allWait(...victims);
    await killed(scene, this.name, ...victims);
  },
};

const READ_MS = 700;
const READING_MS = 4_000;

const readersWithoutEnd: Fault = {
  name: 'readers without end',
  what: 'a writer waits, and in other processes the next reader always comes before the last one is done',
  ablation: 'one queue for all',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 2_500, keepsUpdates: true },
  ...AMONG_READERS,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    // Behind a writer of its own process, a reader waits in any case.
    const writer = fleet.other(random);
    scene.injected(this.name);
    fleet.go(
      fleet.members.filter((member) => member !== writer),
      true,
    );
    const until = scene.now() + READING_MS;
    await fleet.longHold(fleet.other(random, writer), READ_MS, READER);
    fleet.go([writer]);
    while (scene.now() < until) {
      await scene.sleep(READ_MS / 2);
      const busy = fleet.members.filter((member) => member.busy);
      await fleet.longHold(fleet.other(random, writer, ...busy), READ_MS, READER);
    }
    scene.healed(this.name);
    fleet.go();
    await scene.settle();
  },
};

const freshReadersKilled: Fault = {
  name: 'fresh readers killed',
  what: 'a writer hands the lock to all readers; two stopped processes are killed before they receive the message',
  ablation: 'short lease of handoffs',
  breaks: 'wait',
  terms: leases(12_000, { waitMs: 14_000 }),
  promises: { waitMs: 7_000 },
  ...AMONG_READERS,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const [holder, ...victims] = fleet.some(3, random);
    const held = fleet.longHold(holder, 20_000);
    fleet.go([holder]);
    await held;
    fleet.go(victims, true);
    const { admin } = scene.victim;
    // The readers of a process share one place.
    await eventually('all readers are in the queue', async () => (await admin.zcard(queueOf())) === victims.length);
    for (const victim of victims) victim.stop();
    holder.send({ kind: 'end' });
    await eventually('they share the lock', async () => (await readersAt(scene, victims)) === 2);
    fleet.go();
    await killed(scene, this.name, ...victims);
  },
};

const slotMoved: Fault = {
  name: 'cluster slot moved, readers and writers',
  what: "the lock's keys, and then its slot, move to another node while two readers hold the lock and others wait",
  ablation: 'following slots',
  breaks: 'hold lost',
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 20_000 }),
  promises: { waitMs: 10_000, freeMs: freeFor(2_000), refuses: true, keepsUpdates: true },
  ...AMONG_READERS,
  on: 'cluster',
  async inject(scene) {
    const { fleet, random } = scene;
    const members = fleet.some(2, random);
    // The leases outlast the fault only by renewals on the next node.
    await fleet.longHolds(members, 5_000, READER);
    await fleet.allWait(...members);
    scene.injected(this.name);
    await scene.on(ClusterTopology).moveSlot();
    scene.healed(this.name);
    await scene.settle();
  },
};

export const readerFaults = [
  rush('readers', 'readers keep writers out'),
  readerStopped,
  readersKilled,
  readersWithoutEnd,
  freshReadersKilled,
  among('readers', keyDeleted(2, READER, [keyOf(), holdersOf(), queueOf()]), {
    what: 'DEL of all keys of a lock that two readers share, and of its queue; then a writer holds the lock for long',
    // A waiter that has lost its place in the queue notices it at its next regular retry.
    promises: { waitMs: 8_000, losesHolds: true, overlapMs: 700 },
  }),
  slotMoved,
] as const;

/** Returns how many shares of the lock these processes have on the server. */
async function readersAt({ victim }: Scene, members: readonly { readonly instance: string }[]): Promise<number> {
  const entries = await victim.admin.zrange(holdersOf(), '0', '-1');
  return entries.filter((entry) => members.some(({ instance }) => entry.startsWith(`v2-${instance}:`))).length;
}
