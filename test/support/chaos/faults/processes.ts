import { eventually } from '../../redis-locks.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { keyOf, queueOf } from '../workload/key.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of the processes that acquire locks. */

const holderStopped: Fault = {
  name: 'holder stopped',
  what: 'SIGSTOP past its lease, after its last check of the lock; SIGCONT while another process holds it',
  ablation: 'owner check of releases',
  breaks: 'overlap',
  terms: leases(600),
  promises: { waitMs: 5_000, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    const next = fleet.other(random, holder);
    await fleet.longHold(holder, 500);
    await fleet.looked(holder);
    scene.injected(this.name);
    holder.stop();
    await fleet.longHold(next, 800);
    await scene.sleep(100);
    holder.goOn();
    scene.healed(this.name);
    await scene.settle();
  },
};

const loopBlocked: Fault = {
  name: 'event loop blocked',
  what: 'the holder blocks its event loop for longer than its lease',
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(600),
  promises: { waitMs: 5_000, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 1_500, { block: true });
    scene.injected(this.name);
    const at = scene.now();
    holder.absent(at, at + 1_700);
    await fleet.entry((member) => member !== holder);
    await scene.sleep(Math.max(0, at + 1_700 - scene.now()));
    scene.healed(this.name);
    await scene.settle();
  },
};

const holderKilled: Fault = {
  name: 'holder killed',
  what: 'kill -9 of the holder',
  ablation: 'lease',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 5_000 },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    await killed(scene, this.name, holder);
  },
};

const waiterKilled: Fault = {
  name: 'waiter killed',
  what: 'kill -9 of two waiters; then the lock is released',
  ablation: 'skipping dead waiters',
  breaks: 'wait',
  terms: leases(8_000),
  // A killed waiter would keep the lock for 1.2 s.
  promises: { waitMs: 1_300 },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    await fleet.allWait(holder);
    await scene.sleep(100);
    const first = fleet.other(random, holder);
    const victims = [first, fleet.other(random, holder, first)];
    scene.injected(this.name);
    await Promise.all(victims.map((victim) => victim.kill()));
    scene.healed(this.name);
    await scene.settle(holder);
    await Promise.all(victims.map(() => fleet.join()));
  },
};

const queueHeadKilled: Fault = {
  name: 'queue head killed',
  what: 'kill -9 of the holder and of the head of the queue: no process is left to hand the lock off',
  ablation: 'retry while queued',
  breaks: 'wait',
  terms: leases(1_000),
  promises: { waitMs: 5_000 },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    const head = await headOf(scene, holder);
    await killed(scene, this.name, holder, head);
  },
};

const freshGranteeKilled: Fault = {
  name: 'fresh grantee killed',
  what: 'the lock is handed to a stopped process, which is killed before it receives the message',
  ablation: 'short lease of handoffs',
  breaks: 'wait',
  terms: leases(12_000, { waitMs: 14_000 }),
  promises: { waitMs: 7_000 },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    const head = await headOf(scene, holder);
    head.stop();
    holder.send({ kind: 'end' });
    await eventually('it is the owner', async () => (await ownerOf(scene)) === head.instance);
    await killed(scene, this.name, head);
  },
};

const FROZEN = 8;
/** Longer than a process may pass a lease on among its callers. */
const PASSED_MS = 200;

/** Not among {@link processFaults}, which the mixed faults include: it needs more processes. */
export const waitersStopped: Fault = {
  name: 'waiters stopped',
  what: `SIGSTOP of ${FROZEN} processes ahead in the queue; the lock is released to them`,
  ablation: 'short lease of handoffs',
  breaks: 'wait',
  terms: leases(12_000, { waitMs: 30_000 }),
  // 1.2 s for the first stopped process, at most 540 ms for each other one, and room.
  promises: { waitMs: 7_000, freeMs: 5_500, losesHolds: true },
  stores: { token: {} },
  async inject(scene) {
    const { fleet, random, victim } = scene;
    await Promise.all(Array.from({ length: FROZEN + 1 - fleet.members.length }, () => fleet.join()));
    await fleet.rest();
    const holder = fleet.other(random);
    const frozen = fleet.members.filter((member) => member !== holder);
    const held = fleet.longHold(holder, 60_000);
    fleet.go([holder]);
    await held;
    fleet.go(frozen);
    await eventually('all are in the queue', async () => (await victim.admin.zcard(queueOf())) === FROZEN);
    scene.injected(this.name);
    for (const member of frozen) member.stop();
    // Its own callers would get the lease without a request otherwise.
    await scene.sleep(PASSED_MS);
    scene.healed(this.name);
    holder.send({ kind: 'end' });
    // Its callers come after those that are stopped.
    await fleet.entry((member) => member === holder);
    for (const member of frozen) member.goOn();
    await scene.settle();
  },
};

export const processFaults = [
  holderStopped,
  loopBlocked,
  holderKilled,
  waiterKilled,
  queueHeadKilled,
  freshGranteeKilled,
] as const;

/** Kills the victims, waits until all others have had the lock again, and replaces the victims. */
export async function killed(scene: Scene, name: string, ...victims: readonly Member[]): Promise<void> {
  scene.injected(name);
  await Promise.all(victims.map((victim) => victim.kill()));
  scene.healed(name);
  await scene.settle();
  await Promise.all(victims.map(() => scene.fleet.join()));
}

/** Waits until all other processes are queued, and returns the first of them. */
async function headOf({ fleet, victim }: Scene, holder: Member): Promise<Member> {
  const queue = queueOf();
  const others = fleet.members.length - 1;
  await eventually('all others are in the queue', async () => (await victim.admin.zcard(queue)) === others);
  const entries = await victim.admin.zrange(queue, '0', '-1');
  const members = entries.map((entry) => fleet.members.find(({ instance }) => entry.startsWith(`v2-${instance}:`)));
  const head = members.find((member) => member !== holder);
  if (head === undefined) throw new Error(`${entries.join()}: an entry belongs to no member`);
  return head;
}

async function ownerOf({ victim }: Scene): Promise<string | undefined> {
  return (await victim.admin.get(keyOf()))?.split(':')[0].replace(/^v2-/, '');
}
