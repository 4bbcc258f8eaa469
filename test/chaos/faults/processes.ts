import { eventually } from '../../support/redis-locks.js';
import type { Member } from '../fleet/member.js';
import type { Scene } from '../scene.js';
import { keyOf, queueOf } from '../workload/key.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of the processes that take locks. */

const holderStopped: Fault = {
  name: 'holder stopped',
  what: 'SIGSTOP past its lease, behind its last look at the lock; SIGCONT while another one holds it',
  defence: 'owner check of releases',
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
  defence: 'local deadline',
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
  defence: 'lease',
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
  what: 'kill -9 of one who waits, while another one holds the lock',
  defence: 'passing over the dead',
  breaks: 'wait',
  terms: leases(8_000),
  promises: { waitMs: 2_500 },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 600);
    await fleet.allWait(holder);
    await scene.sleep(100);
    await killed(scene, this.name, fleet.other(random, holder));
  },
};

export const queueHeadKilled: Fault = {
  name: 'queue head killed',
  what: 'kill -9 of the holder and of the first in the queue: nobody is left to hand the lock on',
  defence: 'safety net',
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
  what: 'the lock is handed to a process that is stopped, and killed before it has heard of it',
  defence: 'short lease of hand-overs',
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
    holder.tell({ kind: 'end' });
    await eventually('the lock is its', async () => (await ownerOf(scene)) === head.instance);
    await killed(scene, this.name, head);
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

/** Kills them, sees the others through it, and puts new ones in their places. */
export async function killed(scene: Scene, name: string, ...victims: readonly Member[]): Promise<void> {
  scene.injected(name);
  await Promise.all(victims.map((victim) => victim.kill()));
  scene.healed(name);
  await scene.settle();
  await Promise.all(victims.map(() => scene.fleet.join()));
}

/** The first process in the queue beside the holder's, when all others stand in it. */
async function headOf({ fleet, victim }: Scene, holder: Member): Promise<Member> {
  const queue = queueOf();
  const others = fleet.places - 1;
  await eventually('all others are in the queue', async () => (await victim.admin.zcard(queue)) === others);
  const claims = await victim.admin.zrange(queue, '0', '-1');
  const members = claims.map((claim) => fleet.members.find(({ instance }) => claim.startsWith(`${instance}:`)));
  const head = members.find((member) => member !== holder);
  if (head === undefined) throw new Error(`${claims.join()}: somebody's place is nobody's`);
  return head;
}

async function ownerOf({ victim }: Scene): Promise<string | undefined> {
  return (await victim.admin.get(keyOf()))?.split(':')[0];
}
