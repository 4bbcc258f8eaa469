import { eventually } from '../../redis-locks.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { keyOf, queueOf } from '../workload/key.js';
import { type Fault, leases } from './fault.js';

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
  what: 'every 10 ms, messages to the waiters: that the lock is theirs, that of their next requests, and nonsense',
  ablation: 'messages only wake',
  breaks: 'overlap',
  terms: leases(2_000),
  promises: { waitMs: 6_000, keepsUpdates: true },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 2_500);
    await fleet.allWait(holder);
    scene.injected(this.name);
    for (const until = scene.now() + 3_500; scene.now() < until; await scene.sleep(10)) await forge(scene);
    scene.healed(this.name);
    await scene.settle();
  },
};

export const messageFaults = [delayed, dropped, forged] as const;

const NONSENSE = ['', '0', '-1', 'NaN', '1e999', String(2 ** 53), '\u0000', ' ', '*', '3', 'any:key', '9'.repeat(400)];

/** Publishes messages to all that wait: `<instance>:<attempt> <mode> <key>`. */
async function forge({ random, victim: { admin } }: Scene): Promise<void> {
  const channels = (await admin.call('PUBSUB', 'CHANNELS', '*nestjs-redis-lock:*')) as string[];
  for (const entry of await admin.zrange(queueOf(), '0', '-1')) {
    const [instance, attempt] = entry.replace(/^v2-/, '').split(':');
    const next = Number(attempt) + Math.floor(random() * 50);
    const words = [`${instance}:${random() < 0.5 ? attempt : next}`, '-', keyOf()];
    const odd = words.with(Math.floor(random() * words.length), NONSENSE[Math.floor(random() * NONSENSE.length)]);
    for (const message of [words, odd, odd.slice(1)])
      for (const channel of channels) await admin.publish(channel, message.join(' '));
  }
}

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
