import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../../random.js';
import { eventually } from '../../redis-locks.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { KEY, QUEUE } from '../workload/key.js';
import { type Fault, freeFor, LATE_WRITER, leases, NO_END_MS, OTHERS } from './fault.js';

/** Faults of the processes that acquire locks. */
export const processFaults: readonly Fault[] = [
  {
    name: 'holder stopped',
    what: 'SIGSTOP past its lease, after its last check of the lock; SIGCONT while another process holds it',
    control: { without: 'owner check of releases', breaks: 'overlap' },
    terms: leases(600),
    promises: { waitMs: 5_000, losesHolds: true },
    others: OTHERS,
    held: { ms: 500, looked: true },
    async inject({ fleet }, holder) {
      holder.stop();
      await fleet.longHold(fleet.other(holder), 800);
      await sleep(100);
      holder.goOn();
    },
  },
  {
    name: 'event loop blocked',
    what: 'the holder blocks its event loop for longer than its lease',
    control: { without: 'local deadline', breaks: 'overlap' },
    terms: leases(600),
    promises: { waitMs: 5_000, losesHolds: true },
    others: OTHERS,
    held: { ms: 1_500, block: true },
    async inject({ fleet }, holder) {
      const until = machineMs() + 1_700;
      holder.absent(machineMs(), until);
      await fleet.entry(fleet.others(holder));
      await sleep(Math.max(0, until - machineMs()));
    },
  },
  {
    name: 'holder killed',
    what: 'kill -9 of the holder',
    control: { without: 'lease', breaks: 'wait' },
    terms: leases(1_000),
    promises: { waitMs: 5_000 },
    others: OTHERS,
    held: { ms: NO_END_MS },
    inject: (_, holder) => killed(holder),
  },
  {
    name: 'waiter killed',
    what: 'kill -9 of two waiters; then the lock is released',
    control: { without: 'skipping dead waiters', breaks: 'wait' },
    terms: leases(8_000),
    // A killed waiter would keep the lock for 1.2 s.
    promises: { waitMs: 1_300 },
    others: OTHERS,
    held: { ms: NO_END_MS, waitedFor: true },
    async inject({ fleet }, holder) {
      await sleep(100);
      await killed(...fleet.some(2, holder));
      holder.end();
    },
  },
  {
    name: 'queue head killed',
    what: 'kill -9 of the holder and of the head of the queue: no process is left to hand the lock off',
    control: { without: 'retry while queued', breaks: 'wait' },
    terms: leases(1_000),
    promises: { waitMs: 5_000 },
    held: { ms: NO_END_MS },
    inject: async (scene, holder) => killed(holder, await headOf(scene, holder)),
  },
  {
    name: 'fresh grantee killed',
    what: 'the lock is handed to a stopped process, which is killed before it receives the message',
    control: { without: 'short lease of handoffs', breaks: 'wait' },
    terms: leases(12_000, { waitMs: 14_000 }),
    promises: { waitMs: 7_000 },
    held: { ms: NO_END_MS },
    async inject(scene, holder) {
      const head = await headOf(scene, holder);
      head.stop();
      holder.end();
      const owner = async (): Promise<string> => (await scene.victim.admin.get(KEY)) ?? '';
      await eventually('it is the owner', async () => (await owner()).startsWith(`v2-${head.instance}:`));
      await killed(head);
    },
  },
];

const FROZEN = 8;
/** Longer than a process may pass a lease on among its callers. */
const PASSED_MS = 200;

/** Not among {@link processFaults}, which the mixed faults include: it needs more processes. */
const waitersStopped: Fault = {
  name: 'waiters stopped',
  what: `SIGSTOP of ${FROZEN} processes ahead in the queue; the lock is released to them`,
  control: { without: 'short lease of handoffs', breaks: 'wait' },
  terms: leases(12_000, { waitMs: 30_000 }),
  // 1.2 s for the first stopped process, at most 540 ms for each other one, and room.
  promises: { waitMs: 7_000, freeMs: 5_500, losesHolds: true },
  async inject(scene) {
    const { fleet } = scene;
    await fleet.fill(FROZEN + 1);
    const [holder, ...frozen] = fleet.some(FROZEN + 1);
    await fleet.longHoldAlone([holder], NO_END_MS);
    fleet.go(frozen);
    await scene.queued(FROZEN);
    for (const member of frozen) member.stop();
    // Its own callers would get the lease without a request otherwise.
    await sleep(PASSED_MS);
    scene.healed();
    holder.end();
    // Its callers come after those that are stopped.
    await fleet.entry([holder]);
    for (const member of frozen) member.goOn();
  },
};

/** Longer than `waitMs`, as the documentation asks for. */
const PATIENT = leases(3_000, { shutdownGraceMs: 20_000 });
const LEASE_MS = 15_000;
/** Far more than the 100 ms that a message usually takes, and less than the time to the next renewal. */
const BY_MESSAGE_MS = 3_000;
/** Until the next renewal, after a third of the lease. Its reply, and room. */
const BY_RENEWAL_MS = LEASE_MS / 3 + 1_000 + 2_000;
const BY_RENEWAL = { noticeMs: BY_RENEWAL_MS, overlapMs: BY_RENEWAL_MS };

/**
 * Processes that shut down while they hold and wait, whose places new ones take, and an operator who releases a lock
 * that is not stuck.
 */
export const deploymentFaults: readonly Fault[] = [
  waitersStopped,
  {
    name: 'deployment',
    what: 'all processes are replaced one after another, by SIGTERM while each holds the lock or waits for it',
    control: { without: 'grace of a shutdown', breaks: 'hold lost' },
    terms: PATIENT,
    promises: { waitMs: 6_000, freeMs: freeFor(PATIENT.ttlMs), keepsUpdates: true },
    others: OTHERS,
    async inject(scene) {
      const { fleet } = scene;
      for (const [i, member] of fleet.members.entries()) {
        await fleet.join();
        const holder = i % 2 === 0 ? member : fleet.other(member);
        await fleet.longHold(holder, 1_000);
        await fleet.allWait(holder);
        scene.injected();
        member.terminate();
        scene.healed();
        await fleet.gone(member);
        await fleet.longHoldsEnd();
      }
    },
  },
  {
    name: 'deployment, grace over',
    what: 'SIGTERM of the holder, whose work outlasts the grace and writes after it, while all others wait',
    control: { without: 'release at shutdown', breaks: 'wait' },
    terms: leases(12_000, { waitMs: 14_000, shutdownGraceMs: 500 }),
    promises: { waitMs: 6_000, losesHolds: true, refuses: true },
    others: OTHERS,
    held: { ...LATE_WRITER, ms: 3_000, waitedFor: true },
    async inject({ fleet }, holder) {
      holder.terminate();
      await fleet.entry(fleet.others(holder));
      await fleet.gone(holder);
    },
  },
  {
    name: 'released by force',
    what: 'another process releases the lock by force while it is held and waited for; the former holder writes late',
    control: { without: 'notices of forced releases', breaks: 'late notice' },
    terms: leases(LEASE_MS, { waitMs: 18_000 }),
    promises: { waitMs: 6_000, noticeMs: BY_MESSAGE_MS, overlapMs: BY_MESSAGE_MS, losesHolds: true },
    others: { timestamp: BY_RENEWAL, redisson: BY_RENEWAL },
    held: { ...LATE_WRITER, waitedFor: true },
    async inject(scene, former) {
      const { fleet } = scene;
      await scene.forceRelease(former, fleet.other(former));
      await fleet.lost(former);
      await fleet.written(former);
      former.end();
    },
  },
];

/** Kills the victims. The harness replaces them. */
export async function killed(...victims: readonly Member[]): Promise<void> {
  await Promise.all(victims.map((victim) => victim.kill()));
}

/** Waits until all other processes are queued, and returns the first of them. */
async function headOf(scene: Scene, holder: Member): Promise<Member> {
  const { fleet, victim } = scene;
  await scene.queued(fleet.members.length - 1);
  const entries = await victim.admin.zrange(QUEUE, '0', '-1');
  const members = entries.map((entry) => fleet.members.find(({ instance }) => entry.startsWith(`v2-${instance}:`)));
  const head = members.find((member) => member !== holder);
  if (head === undefined) throw new Error(`${entries.join()}: an entry belongs to no member`);
  return head;
}
