import type { Direction, RedisProxy } from '../../proxy.js';
import type { Member } from '../fleet/member.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of one process' connections to the servers. */

/** The name that the library gives its connections for subscriptions. */
const SUBSCRIBER = /^id=(\d+) .* name=nestjs-redis-lock:handoffs /gm;

const LOST_WAY_MS = 900;
/** Longer than any wait for the lease of a process that gets no replies. */
const DEAF_MS = 7_000;

/** Returns a fault that ends the connections while a renewal, or its reply, is on the way. */
function ended(name: string, what: string, lost: Direction, end: (way: RedisProxy) => void): Fault {
  return {
    name,
    what: `${what}, with a renewal under way`,
    ablation: 'unknown is not lost',
    breaks: 'hold lost',
    terms: leases(2_400, { waitMs: 14_000 }),
    // The hold itself, and the next retry of a queued waiter.
    promises: { waitMs: 10_000, refuses: true },
    stores: ALL_STORES,
    async inject(scene) {
      const { fleet, random } = scene;
      const holder = fleet.other(random);
      await fleet.longHold(holder, 5_000);
      // After the first renewals: a handed-off lock is renewed at once.
      await scene.sleep(150);
      scene.injected(this.name);
      for (const way of holder.ways) way.hold(lost);
      await scene.sleep(1_000);
      for (const way of holder.ways) {
        end(way);
        way.resume(lost);
      }
      scene.healed(this.name);
      await scene.settle();
    },
  };
}

export const repliesDropped: Fault = {
  name: 'half-open: replies lost',
  what: 'a caller gets no replies, while its requests are still served; then the connection is reset',
  ablation: 'lease',
  breaks: 'wait',
  terms: leases(2_000, { requestTimeoutMs: 500, waitMs: 14_000 }),
  // The caller asks again until its connection is reset, and then keeps the lock for its lease.
  promises: { waitMs: 6_000, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    scene.injected(this.name);
    for (const way of caller.ways) way.drop('replies');
    caller.absent(scene.now(), scene.now() + LOST_WAY_MS + DEAF_MS);
    fleet.go([caller]);
    await scene.sleep(LOST_WAY_MS);
    fleet.go();
    await scene.sleep(DEAF_MS);
    restore(caller);
    scene.healed(this.name);
    await scene.settle();
  },
};

const requestsDropped: Fault = {
  name: 'half-open: requests lost',
  what: "the holder's requests reach no server; the connection is reset after its lease",
  ablation: 'local deadline',
  breaks: 'overlap',
  terms: leases(900),
  promises: { waitMs: 7_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 4_000);
    scene.injected(this.name);
    for (const way of holder.ways) way.drop('requests');
    await fleet.entry((member) => member !== holder);
    await scene.sleep(500);
    restore(holder);
    scene.healed(this.name);
    await scene.settle();
  },
};

const repliesHeld: Fault = {
  name: 'replies held',
  what: 'the reply to a request arrives after its lease, while another process holds the lock',
  ablation: 'leases from before the request',
  breaks: 'overlap',
  terms: leases(800, { requestTimeoutMs: 5_000 }),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const caller = fleet.other(random);
    const next = fleet.other(random, caller);
    scene.injected(this.name);
    for (const way of caller.ways) way.hold('replies');
    fleet.go([caller]);
    await scene.sleep(150);
    fleet.go();
    await scene.sleep(900);
    await fleet.longHold(next, 1_500);
    for (const way of caller.ways) way.resume('replies');
    scene.healed(this.name);
    await scene.settle();
  },
};

export const subscribersCut: Fault = {
  name: 'subscribers cut',
  what: 'CLIENT KILL of all connections that receive messages, just before the lock is released',
  ablation: 'retry while queued',
  breaks: 'wait',
  terms: leases(8_000),
  promises: { waitMs: 5_000 },
  stores: { token: {}, redisson: {} },
  async inject(scene) {
    const { fleet, random } = scene;
    const { admin } = scene.victim;
    const holder = fleet.other(random);
    await fleet.longHold(holder, 20_000);
    await fleet.allWait(holder);
    await scene.sleep(200);
    scene.injected(this.name);
    const ids = [...((await admin.client('LIST')) as string).matchAll(SUBSCRIBER)].map(([, id]) => id);
    await Promise.all(ids.map((id) => admin.call('CLIENT', 'KILL', 'ID', id)));
    holder.send({ kind: 'end' });
    scene.healed(this.name);
    await scene.settle();
  },
};

export const networkFaults = [
  ended('connection reset', 'RST of all connections of the holder', 'replies', (way) => way.reset()),
  ended('half-closed by the server', 'FIN to the holder', 'replies', (way) => way.halfClose('client')),
  ended('half-closed by the client', 'FIN to the servers', 'requests', (way) => way.halfClose('server')),
  repliesDropped,
  requestsDropped,
  repliesHeld,
  subscribersCut,
] as const;

/** Resets the connections. After lost replies, later replies on them would be taken for those of other requests. */
function restore(member: Member): void {
  for (const way of member.ways) {
    way.reset();
    way.resume('replies');
    way.resume('requests');
  }
}
