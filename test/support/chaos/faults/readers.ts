import { eventually } from '../../redis-locks.js';
import type { Scene } from '../scene.js';
import { holdersOf, keyOf, queueOf } from '../workload/key.js';
import { replicasAsked } from './failovers.js';
import { among, type Fault, leases } from './fault.js';
import { repliesDropped, subscribersCut } from './network.js';
import { killed, queueHeadKilled } from './processes.js';
import { flushed, keyDeleted } from './servers.js';
import { rush, sharersKilled, slotMoved } from './sharing.js';

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

const readersKilled = sharersKilled(
  { name: 'readers killed', what: 'kill -9 of two readers, while all others wait for them', workload: 'readers' },
  2,
  READER,
);

const READ_MS = 700;

const readersWithoutEnd: Fault = {
  name: 'readers without end',
  what: 'each reader reads for long, and the next reader comes before it is done, while writers wait',
  ablation: 'one queue for all',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 4_000, keepsUpdates: true },
  ...AMONG_READERS,
  async inject(scene) {
    const { fleet, random } = scene;
    scene.injected(this.name);
    let last = fleet.other(random);
    for (const until = scene.now() + 5_000; scene.now() < until;) {
      await fleet.longHold(last, READ_MS, READER);
      await scene.sleep(READ_MS / 3);
      last = fleet.other(random, ...fleet.members.filter(({ busy }) => busy));
    }
    scene.healed(this.name);
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

export const readerFaults = [
  rush('readers', 'readers keep writers out'),
  readerStopped,
  readersKilled,
  readersWithoutEnd,
  freshReadersKilled,
  among('readers', queueHeadKilled),
  among('readers', flushed),
  among('readers', keyDeleted(2, READER, [keyOf(), holdersOf(), queueOf()]), {
    what: 'DEL of all keys of a lock that two readers share, and of its queue; then a writer holds the lock for long',
    // A waiter that has lost its place in the queue notices it at its next regular retry.
    promises: { waitMs: 8_000, losesHolds: true, overlapMs: 700 },
  }),
  among('readers', repliesDropped),
  among('readers', subscribersCut),
  among('readers', replicasAsked(READER), { breaks: 'torn read' }),
  slotMoved('readers', 2, READER),
] as const;

/** Returns how many shares of the lock these processes have on the server. */
async function readersAt({ victim }: Scene, members: readonly { readonly instance: string }[]): Promise<number> {
  const entries = await victim.admin.zrange(holdersOf(), '0', '-1');
  return entries.filter((entry) => members.some(({ instance }) => entry.startsWith(`v2-${instance}:`))).length;
}
