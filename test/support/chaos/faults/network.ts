import { setTimeout as sleep } from 'node:timers/promises';
import type { Direction, RedisProxy } from '../../proxy.js';
import { machineMs } from '../../random.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { KEY, QUEUE } from '../workload/key.js';
import { type Fault, leases, NO_END_MS, OTHERS } from './fault.js';

const LOST_WAY_MS = 900;
/** Longer than any wait for the lease of a process that gets no replies. */
const DEAF_MS = 7_000;
/** How long a request takes to fail, and its caller to connect again. */
const LATE_MS = 150;

/** Ways to end a connection, and what is held up meanwhile: a renewal, or its reply. */
const ENDS: readonly { readonly lost: Direction; readonly end: (way: RedisProxy) => void }[] = [
  { lost: 'replies', end: (way) => way.reset() },
  { lost: 'replies', end: (way) => way.halfClose('client') },
  { lost: 'requests', end: (way) => way.halfClose('server') },
];

/** Faults of one process' connections to the servers. */
export const networkFaults: readonly Fault[] = [
  {
    name: 'connections ended',
    what: "RST of the holder's connections, FIN to the holder, and FIN to the servers, each with a renewal under way",
    control: { without: 'unknown is not lost', breaks: 'hold lost' },
    terms: leases(2_400, { waitMs: 14_000 }),
    // The hold itself, and the next retry of a queued waiter.
    promises: { waitMs: 10_000, refuses: true },
    others: OTHERS,
    async inject(scene) {
      for (const { lost, end } of ENDS) {
        const holder = scene.fleet.other();
        await scene.fleet.longHold(holder, 3_500);
        scene.injected();
        // Its first renewal comes after 800 ms.
        for (const way of holder.ways) way.hold(lost);
        await sleep(1_000);
        for (const way of holder.ways) {
          end(way);
          way.resume(lost);
        }
        scene.healed();
        await scene.settle();
      }
    },
  },
  {
    name: 'half-open: replies lost',
    what: 'a caller gets no replies for 8 s, while its requests are still served',
    control: { without: 'giving up silent connections', breaks: 'wait' },
    terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 14_000 }),
    // The caller asks again until it replaces its connection, and then the lock is closed for its lease.
    promises: { waitMs: 5_500, refuses: true },
    others: OTHERS,
    async inject({ fleet }) {
      await fleet.rest();
      const caller = fleet.other();
      for (const way of caller.ways) way.drop('replies');
      caller.absent(machineMs(), machineMs() + LOST_WAY_MS + DEAF_MS);
      fleet.go([caller]);
      await sleep(LOST_WAY_MS);
      fleet.go();
      await sleep(DEAF_MS);
      restore(caller);
    },
  },
  {
    name: 'half-open: requests lost',
    what: "the holder's requests reach no server; the connection is reset after its lease",
    control: { without: 'local deadline', breaks: 'overlap' },
    terms: leases(900),
    promises: { waitMs: 7_000, refuses: true, losesHolds: true },
    others: OTHERS,
    held: { ms: 4_000 },
    async inject({ fleet }, holder) {
      for (const way of holder.ways) way.drop('requests');
      await fleet.entry(fleet.others(holder));
      await sleep(500);
      restore(holder);
    },
  },
  {
    name: 'replies held',
    what: 'the reply to a request arrives after its lease, while another process holds the lock',
    control: { without: 'leases from before the request', breaks: 'overlap' },
    terms: leases(800, { requestTimeoutMs: 5_000 }),
    promises: { waitMs: 8_000, refuses: true, losesHolds: true },
    others: OTHERS,
    async inject({ fleet }) {
      await fleet.rest();
      const [caller, next] = fleet.some(2);
      for (const way of caller.ways) way.hold('replies');
      fleet.go([caller]);
      await sleep(150);
      fleet.go();
      await sleep(900);
      await fleet.longHold(next, 1_500);
      for (const way of caller.ways) way.resume('replies');
    },
  },
  {
    name: 'request arrives late',
    what: 'the connection of a request ends; the request arrives after its owner has had the lock and released it',
    control: { without: 'releases after lost requests', breaks: 'wait' },
    terms: leases(8_000, { waitMs: 14_000 }),
    // The release is sent again after 1 s, and after 3 s.
    promises: { waitMs: 4_500, refuses: true },
    async inject({ fleet }) {
      await fleet.rest();
      const caller = fleet.other();
      const entered = fleet.entry([caller]);
      for (const way of caller.ways) way.hold('requests');
      fleet.go([caller]);
      await sleep(LATE_MS);
      const arrivals = caller.ways.map((way) => way.resetClients());
      for (const way of caller.ways) way.resume('requests');
      await entered;
      await fleet.rest();
      await sleep(LATE_MS);
      for (const arrive of arrivals) arrive();
      await sleep(LATE_MS);
      fleet.go();
    },
  },
];

const LONGEST_DELAY_MS = 250;
const OLD_MS = 1_300;
const SILENT_MS = 6_000;

/** Faults of the messages that wake waiters. */
export const messageFaults: readonly Fault[] = [
  {
    name: 'delays that differ',
    what: 'commands and messages of each process are delayed differently; then a message arrives after the lease of its handoff',
    control: { without: 'messages only wake', breaks: 'overlap' },
    terms: leases(800, { requestTimeoutMs: 5_000, waitMs: 14_000 }),
    promises: { waitMs: 12_000, losesHolds: true },
    async inject(scene) {
      const { fleet } = scene;
      const ways = fleet.members.flatMap((member) => member.ways);
      for (const traffic of ['requests', 'replies', 'messages'] as const)
        for (const way of ways) way.delay(traffic, fleet.random() * LONGEST_DELAY_MS);
      await sleep(3_000);
      for (const traffic of ['requests', 'replies'] as const) for (const way of ways) way.delay(traffic, 0);
      const [holder, first, second] = fleet.some(3);
      await fleet.longHoldAlone([holder], NO_END_MS);
      fleet.go([first]);
      await scene.queued(1);
      fleet.go();
      await scene.queued(fleet.members.length - 1);
      for (const way of first.ways) {
        way.hold('requests');
        way.delay('messages', OLD_MS);
      }
      first.absent(machineMs(), machineMs() + OLD_MS);
      const held = fleet.longHold(second, 1_500);
      holder.end();
      await held;
      await sleep(OLD_MS);
      for (const way of first.ways) {
        way.resume('requests');
        way.delay('messages', 0);
      }
    },
  },
  {
    name: 'messages dropped',
    what: 'no process receives messages, and no connection ends, from before the lock is released',
    control: { without: 'retry while queued', breaks: 'wait' },
    terms: leases(8_000, { waitMs: 16_000 }),
    // Each process asks again within a second, and three may be ahead.
    promises: { waitMs: 8_000 },
    others: { redisson: {} },
    held: { ms: NO_END_MS, waitedFor: true },
    async inject(scene, holder) {
      const { fleet } = scene;
      await sleep(200);
      const ways = fleet.members.flatMap((member) => member.ways);
      for (const way of ways) way.drop('messages');
      holder.end();
      await sleep(SILENT_MS);
      // The connections stay: a proxy or a firewall has forgotten them, and remembers new ones.
      for (const way of ways) way.resume('messages');
      scene.healed();
      // The next silence begins when all processes take part again.
      await Promise.all(fleet.members.map((member) => fleet.entry([member])));
    },
  },
  {
    name: 'forged messages',
    what: 'every 10 ms, messages to the waiters: that the lock is theirs, that of their next requests, and nonsense',
    control: { without: 'messages only wake', breaks: 'overlap' },
    terms: leases(2_000),
    promises: { waitMs: 6_000, keepsUpdates: true },
    held: { ms: 2_500, waitedFor: true },
    async inject(scene) {
      for (const until = machineMs() + 3_500; machineMs() < until; await sleep(10)) await forge(scene);
    },
  },
];

const NONSENSE = ['', '0', '-1', 'NaN', '1e999', String(2 ** 53), '\u0000', ' ', '*', '3', 'any:key', '9'.repeat(400)];

/** Publishes messages to all that wait: `<instance>:<attempt> <mode> <key>`. */
async function forge({ fleet: { random }, victim: { admin } }: Scene): Promise<void> {
  const channels = (await admin.call('PUBSUB', 'CHANNELS', '*nestjs-redis-lock:*')) as string[];
  for (const entry of await admin.zrange(QUEUE, '0', '-1')) {
    const [instance, attempt] = entry.replace(/^v2-/, '').split(':');
    const next = Number(attempt) + Math.floor(random() * 50);
    const words = [`${instance}:${random() < 0.5 ? attempt : next}`, '-', KEY];
    const odd = words.with(Math.floor(random() * words.length), NONSENSE[Math.floor(random() * NONSENSE.length)]);
    for (const message of [words, odd, odd.slice(1)])
      for (const channel of channels) await admin.publish(channel, message.join(' '));
  }
}

/** Resets the connections. After lost replies, later replies on them would be taken for those of other requests. */
function restore(member: Member): void {
  for (const way of member.ways) {
    way.reset();
    way.resume('replies');
    way.resume('requests');
  }
}
