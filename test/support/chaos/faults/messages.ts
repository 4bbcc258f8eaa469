import { eventually } from '../../redis-locks.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { queueOf } from '../workload/key.js';
import { type Fault, leases } from './fault.js';
import { Forger } from './forger.js';

/** Faults of the messages that wake waiters. */

const LONGEST_DELAY_MS = 250;
const OLD_MS = 1_300;

const delayed: Fault = {
  name: 'delays that differ',
  what: 'commands and messages of each process are delayed differently; then a message arrives after the lease of its handoff',
  ablation: 'messages only wake',
  breaks: 'overlap',
  terms: leases(800, { requestTimeoutMs: 5_000, waitMs: 14_000 }),
  promises: { waitMs: 12_000, losesHolds: true },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    scene.injected(this.name);
    for (const traffic of ['requests', 'replies', 'messages'] as const) {
      for (const { ways } of fleet.members) for (const way of ways) way.delay(traffic, random() * LONGEST_DELAY_MS);
    }
    await scene.sleep(3_000);
    for (const { ways } of fleet.members) {
      for (const way of ways) for (const traffic of ['requests', 'replies'] as const) way.delay(traffic, 0);
    }
    const [holder, first, second] = fleet.some(3, random);
    await inLine(scene, holder, first);
    for (const way of first.ways) {
      way.hold('requests');
      way.delay('messages', OLD_MS);
    }
    first.absent(scene.now(), scene.now() + OLD_MS);
    const held = fleet.longHold(second, 1_500);
    holder.send({ kind: 'end' });
    await held;
    await scene.sleep(OLD_MS);
    for (const way of first.ways) {
      way.resume('requests');
      way.delay('messages', 0);
    }
    scene.healed(this.name);
    await scene.settle();
  },
};

const SILENT_MS = 6_000;

const dropped: Fault = {
  name: 'messages dropped',
  what: 'no process receives messages, and no connection ends, from before the lock is released',
  ablation: 'retry while queued',
  breaks: 'wait',
  terms: leases(8_000, { waitMs: 16_000 }),
  // Each process asks again within a second, and three may be ahead.
  promises: { waitMs: 8_000 },
  stores: { token: {}, redisson: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    await fleet.allWait(holder);
    await scene.sleep(200);
    scene.injected(this.name);
    const ways = fleet.members.flatMap((member) => member.ways);
    for (const way of ways) way.drop('messages');
    holder.send({ kind: 'end' });
    await scene.sleep(SILENT_MS);
    // The connections stay: a proxy or a firewall has forgotten them, and remembers new ones.
    for (const way of ways) way.resume('messages');
    scene.healed(this.name);
    // The next silence begins when all processes take part again.
    await Promise.all(fleet.members.map((each) => fleet.entry((member) => member === each)));
    await scene.settle();
  },
};

const forged: Fault = {
  name: 'forged messages',
  what: 'a user that may use the channels, and no key, repeats, changes and invents messages while the lock is held',
  ablation: 'messages only wake',
  breaks: 'overlap',
  terms: leases(2_000),
  promises: { waitMs: 6_000, keepsUpdates: true },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random, victim } = scene;
    const forger = await Forger.start(victim.server, victim.admin, random);
    try {
      // It receives some messages first.
      await scene.sleep(500);
      const holder = fleet.other(random);
      await fleet.longHold(holder, 2_500);
      await fleet.allWait(holder);
      scene.injected(this.name);
      forger.begin();
      await fleet.longHoldsEnd();
      await scene.sleep(1_000);
    } finally {
      forger.stop();
    }
    scene.healed(this.name);
    await scene.settle();
  },
};

export const messageFaults = [delayed, dropped, forged] as const;

/** Makes the holder hold the lock, `first` wait for it at the head of the queue, and all others behind. */
async function inLine({ fleet, victim }: Scene, holder: Member, first: Member): Promise<void> {
  const queued = (count: number): Promise<void> =>
    eventually(`${count} wait`, async () => (await victim.admin.zcard(queueOf())) === count);
  await fleet.rest();
  const held = fleet.longHold(holder, 20_000);
  fleet.go([holder]);
  await held;
  fleet.go([first]);
  await queued(1);
  fleet.go();
  await queued(fleet.members.length - 1);
}
