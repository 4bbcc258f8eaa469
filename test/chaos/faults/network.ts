import type { Direction, RedisProxy } from '../../support/proxy.js';
import type { Member } from '../fleet/member.js';
import { ALL_STORES, type Fault, leases } from './fault.js';

/** Faults of one process' way to the servers. */

/** The name that the library gives its connections for subscriptions. */
const SUBSCRIBER = /^id=(\d+) .* name=nestjs-redis-lock:handoffs /gm;

const LOST_WAY_MS = 900;

/** A connection that ends, one way or another, with a renewal on it that is lost there or back. */
function ended(name: string, what: string, lost: Direction, end: (way: RedisProxy) => void): Fault {
  return {
    name,
    what: `${what}, with a renewal under way`,
    defence: 'unknown is not lost',
    breaks: 'hold lost',
    terms: leases(2_400, { waitMs: 14_000 }),
    // The hold itself, and the safety net behind it.
    promises: { waitMs: 10_000, refuses: true },
    stores: ALL_STORES,
    async inject(scene) {
      const { fleet, random } = scene;
      const holder = fleet.other(random);
      await fleet.longHold(holder, 5_000);
      // Behind the first renewals: a hold that was handed over begins with one at once.
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
  what: 'an asker gets no answers any more, and its requests go on being served; then the connection is reset',
  defence: 'compensation',
  breaks: 'wait',
  terms: leases(10_000, { requestTimeoutMs: 500, waitMs: 14_000 }),
  promises: { waitMs: 5_000, refuses: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const asker = fleet.other(random);
    scene.injected(this.name);
    for (const way of asker.ways) way.drop('replies');
    asker.absent(scene.now(), scene.now() + LOST_WAY_MS);
    fleet.go([asker]);
    await scene.sleep(LOST_WAY_MS);
    fleet.go();
    await fleet.entry((member) => member !== asker);
    restore(asker);
    scene.healed(this.name);
    await scene.settle();
  },
};

const requestsDropped: Fault = {
  name: 'half-open: requests lost',
  what: "the holder's requests reach nobody any more; the connection is reset after its lease",
  defence: 'local deadline',
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
  what: 'the answer to an ask comes when its lease is over and another one holds the lock',
  defence: 'leases from before the ask',
  breaks: 'overlap',
  terms: leases(800, { requestTimeoutMs: 5_000 }),
  promises: { waitMs: 8_000, refuses: true, losesHolds: true },
  stores: ALL_STORES,
  async inject(scene) {
    const { fleet, random } = scene;
    await fleet.rest();
    const asker = fleet.other(random);
    const next = fleet.other(random, asker);
    scene.injected(this.name);
    for (const way of asker.ways) way.hold('replies');
    fleet.go([asker]);
    await scene.sleep(150);
    fleet.go();
    await scene.sleep(900);
    await fleet.longHold(next, 1_500);
    for (const way of asker.ways) way.resume('replies');
    scene.healed(this.name);
    await scene.settle();
  },
};

export const subscribersCut: Fault = {
  name: 'subscribers cut',
  what: 'CLIENT KILL of all connections that hear of hand-offs, just before the lock is released',
  defence: 'safety net',
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
    holder.tell({ kind: 'end' });
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

/** Replies were lost: what goes on over such a connection would be taken for other requests' answers. */
function restore(member: Member): void {
  for (const way of member.ways) {
    way.reset();
    way.resume('replies');
    way.resume('requests');
  }
}
